"""Terra Incognita out of the Caltech Camera Traps: images sorted into folders by place and animal."""

import json
import shutil
from collections import defaultdict
from pathlib import Path

IMAGES = "eccv_18_all_images_sm"
LOCATIONS = frozenset({"38", "43", "46", "100"})
CATEGORIES = frozenset({"bird", "bobcat", "cat", "coyote", "dog", "empty", "opossum", "rabbit", "raccoon", "squirrel"})


def sort_camera_traps(folder: Path) -> None:
    """Make `location_…/animal/file` of what the two archives hold, and remove the rest.

    An image with several of the animals goes into the folder of each, as in DomainBed. Images that the labels name
    but the archive lacks are left out: the labels cover far more than the archive.

    Args:
        folder: Holds the images' folder and one .json file with the labels.

    Raises:
        ValueError: Not what the two archives hold.
    """
    labels = sorted(folder.glob("*.json"))
    images = folder / IMAGES
    if len(labels) != 1 or not images.is_dir():
        found = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
        raise ValueError(f"{folder} should hold the folder {IMAGES} and one .json file of labels. Found: {found}.")
    try:
        content = json.loads(labels[0].read_text(encoding="utf-8"))
        names = {category["id"]: category["name"] for category in content["categories"]}
        animals = defaultdict(set)
        for annotation in content["annotations"]:
            animals[annotation["image_id"]].add(names[annotation["category_id"]])
        pictures = [(image["id"], str(image["location"]), image["file_name"]) for image in content["images"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{labels[0].name} should be labels in COCO's format for camera traps, but cannot be read "
            f"({type(error).__name__}: {error})."
        ) from None
    present = {path.name for path in images.iterdir()}
    for identifier, location, file in pictures:
        if location in LOCATIONS and file in present:
            for animal in sorted(animals[identifier] & CATEGORIES):
                place = folder / f"location_{location}" / animal
                place.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(images / file, place / file)
    shutil.rmtree(images)
    labels[0].unlink()
