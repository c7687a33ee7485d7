"""Size and normalisation of a model's images, from the files beside its weights."""

from pathlib import Path
from typing import Any

from momentalign.encoders._huggingface import read_json
from momentalign.encoders._images import IMAGENET_MEAN, IMAGENET_STD, ImagePreprocessing

DEFAULT_SIZE = 224


def read_image_settings(
    folder: Path, architecture: Any, size: int | None = None
) -> tuple[ImagePreprocessing, tuple[str, ...]]:
    """Read size, mean and standard deviation from `preprocessor_config.json`.

    A crop that the file asks for is taken as the size to resize to, so that nothing of an image is cut off, as in
    DomainBed. Where there is no such file, the size is the architecture's own, else 224, and the normalisation that of
    ImageNet; a note says so.

    Args:
        folder: The model's folder.
        architecture: The model's configuration.
        size: Size where it should be another.

    Returns:
        The preprocessing, and notes on what was assumed.
    """
    settings = _settings(folder)
    if settings is None:
        own = getattr(architecture, "image_size", None)
        assumed = size or (own if isinstance(own, int) else DEFAULT_SIZE)
        note = (
            f"There is no preprocessor_config.json beside the encoder: images are resized to {assumed} × {assumed} "
            "and normalised by the mean and standard deviation of ImageNet."
        )
        return ImagePreprocessing(assumed), (note,)
    mean, std = _normalisation(settings)
    return ImagePreprocessing(size or _size(settings, architecture, folder), mean, std), ()


def _settings(folder: Path) -> dict[str, Any] | None:
    if (folder / "preprocessor_config.json").is_file():
        return read_json(folder / "preprocessor_config.json")
    if (folder / "processor_config.json").is_file():  # newer models of images and texts keep both parts in one file
        part = read_json(folder / "processor_config.json").get("image_processor")
        return part if isinstance(part, dict) else None
    return None


def _size(settings: dict[str, Any], architecture: Any, folder: Path) -> int:
    """The side of the images: of the crop if there is one, else of the resized image, else the architecture's."""
    cropped = settings.get("do_center_crop") and settings.get("crop_size") is not None
    stated = settings.get("crop_size") if cropped else settings.get("size")
    if stated is None or not settings.get("do_resize", True):
        stated = getattr(architecture, "image_size", None) or DEFAULT_SIZE
    sides = (
        list(stated.values()) if isinstance(stated, dict) else list(stated) if isinstance(stated, list) else [stated]
    )
    if isinstance(stated, dict) and "shortest_edge" in stated:
        sides = [stated["shortest_edge"]]
    if not sides or any(not isinstance(side, int) or side != sides[0] for side in sides):
        raise ValueError(
            f"The images of {folder} should be square, but its preprocessor_config.json has the size {stated}. Give "
            f"one with '?size=224' after the name."
        )
    return int(sides[0])


def _normalisation(settings: dict[str, Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation for pixels in [0, 1], whatever range the model's own are for."""
    # Pixels 0…255 become pixel · factor − offset, then (that − mean) / std.
    factor = float(settings.get("rescale_factor", 1 / 255)) if settings.get("do_rescale", True) else 1.0
    offset = 1.0 if settings.get("rescale_offset") else 0.0
    if settings.get("do_normalize", True):
        mean, std = settings.get("image_mean", IMAGENET_MEAN), settings.get("image_std", IMAGENET_STD)
        if settings.get("include_top"):  # EfficientNet divides by the standard deviation once more
            std = [value * value for value in std]
    else:
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    top = 255 * factor
    return tuple((m + offset) / top for m in mean), tuple(s / top for s in std)
