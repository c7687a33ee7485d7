from pathlib import Path

import pytest
import torch

from momentalign.data import DomainDataset, ImageFiles, holdout_indices, load_dataset, read_image_folder
from tests.data.files import write_image, write_image_folder

LAYOUTS = {
    "vlcs": ("VLCS", ("Caltech101", "LabelMe", "SUN09", "VOC2007")),
    "pacs": ("PACS", ("art_painting", "cartoon", "photo", "sketch")),
    "office-home": ("office_home", ("Art", "Clipart", "Product", "Real World")),
    "terra-incognita": ("terra_incognita", ("location_100", "location_38", "location_43", "location_46")),
    "domain-net": ("domain_net", ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")),
}


def files(data: DomainDataset, domain: str, split: str) -> list[str]:
    inputs = data.split(domain, split).inputs
    assert isinstance(inputs, ImageFiles)
    return inputs.names


@pytest.mark.parametrize("name", LAYOUTS)
def test_benchmarks_lie_where_domainbed_puts_them(name: str, tmp_path: Path) -> None:
    folder, domains = LAYOUTS[name]
    write_image_folder(tmp_path / folder, {domain: {"dog": 3, "cat": 2} for domain in reversed(domains)})
    data = load_dataset(name, root=tmp_path)
    assert data.names == domains
    assert data.classes == ("cat", "dog")
    assert (data.name, data.num_classes, data.training_recipe) == (name, 2, "mnist")  # its images are tiny
    for domain in domains:
        assert len(data.split(domain, "in")) == 4
        assert len(data.split(domain, "out")) == 1


def test_order_and_split_are_domainbeds(tmp_path: Path) -> None:
    # torchvision's ImageFolder lists classes by name and files by name within them; DomainBed shuffles that list.
    write_image_folder(tmp_path, {"b": {"y": 3, "x": 4}, "a": {"x": 5, "y": 6}})
    data = read_image_folder(tmp_path, name="d", trial=2)
    listed = [f"b/x/pic_{k:04d}.jpg" for k in range(4)] + [f"b/y/pic_{k:04d}.jpg" for k in range(3)]
    inside, outside = holdout_indices(7, trial=2, domain=1)
    assert files(data, "b", "in") == [listed[k] for k in inside.tolist()]
    assert files(data, "b", "out") == [listed[k] for k in outside.tolist()]
    assert data.split("b", "in").targets.tolist() == [int(name[2] == "y") for name in files(data, "b", "in")]


def test_golden_split(tmp_path: Path) -> None:
    write_image_folder(tmp_path, {"a": {"x": 10}})
    # range(10) shuffled under seed_hash(0, 0) begins with 2, 3 (PROTOCOLS).
    assert files(read_image_folder(tmp_path, name="d"), "a", "out") == ["a/x/pic_0002.jpg", "a/x/pic_0003.jpg"]


def test_any_folder_is_a_data_set(tmp_path: Path) -> None:
    write_image_folder(tmp_path / "traps", {"Zurich": {"fox": 5, "hare": 5}, "Basel": {"fox": 5, "hare": 5}})
    data = load_dataset(str(tmp_path / "traps"))
    assert data.name == "traps"
    assert data.names == ("Basel", "Zurich")
    assert data.classes == ("fox", "hare")


def test_hidden_and_other_files_are_ignored(tmp_path: Path) -> None:
    write_image_folder(tmp_path, {"a": {"x": 5, "y": 5}})
    write_image(tmp_path / "a" / "stray.jpg")
    write_image(tmp_path / "a" / "x" / "deep" / "er.JPEG")
    for stray in (
        ".DS_Store",
        "a/.hidden/1.jpg",
        "a/x/._pic_0000.jpg",
        "a/x/Thumbs.db",
        "a/x/labels.txt",
        ".git/a/b.jpg",
    ):
        (tmp_path / stray).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / stray).write_text("")
    (tmp_path / "README.md").write_text("")
    with pytest.warns(UserWarning, match="1 image outside the folders of classes skipped, for instance stray"):
        data = read_image_folder(tmp_path, name="d", holdout=0)
    assert data.names == ("a",)
    assert sorted(files(data, "a", "in")) == sorted(
        [f"a/{c}/pic_{k:04d}.jpg" for c in "xy" for k in range(5)] + ["a/x/deep/er.JPEG"]
    )


def test_class_missing_from_a_domain_is_legal(tmp_path: Path) -> None:
    write_image_folder(tmp_path, {"a": {"x": 5, "y": 5}, "b": {"y": 5, "z": 5}, "c": {"x": 0, "y": 5, "z": 5}})
    with pytest.warns(UserWarning, match="of the classes") as caught:
        data = load_dataset(tmp_path)
    assert [str(warning.message).split(": ", 1)[1] for warning in caught] == [
        "domain 'a' has no rows of 1 of the classes: z.",
        "domain 'b' has no rows of 1 of the classes: x.",
        "domain 'c' has no rows of 1 of the classes: x.",
    ]
    assert data.classes == ("x", "y", "z")
    assert data.split("b", "in").targets.unique().tolist() == [1, 2]


def test_domain_too_small_to_hold_out_is_legal(tmp_path: Path) -> None:
    write_image_folder(tmp_path, {"a": {"x": 2, "y": 2}})
    with pytest.warns(UserWarning, match=r"domain 'a' has no rows in 'out'\."):
        assert len(load_dataset(tmp_path).split("a", "in")) == 4


def test_duplicates_of_domain_net_are_left_out(tmp_path: Path) -> None:
    folder, domains = LAYOUTS["domain-net"]
    write_image_folder(tmp_path / folder, {domain: {"dog": 3} for domain in domains})
    (tmp_path / folder / "domain_net_duplicates.txt").write_text("real/dog/pic_0001.jpg\nreal/dog/gone.jpg\n")
    data = load_dataset("domain-net", root=tmp_path, holdout=0.5)
    assert sorted(files(data, "real", "in") + files(data, "real", "out")) == [
        "real/dog/pic_0000.jpg",
        "real/dog/pic_0002.jpg",
    ]
    assert len(data.split("clipart", "in")) + len(data.split("clipart", "out")) == 3


def test_bad_files_are_left_out_beforehand_and_the_split_stays(tmp_path: Path) -> None:
    write_image_folder(tmp_path, {"a": {"x": 10, "y": 10}, "b": {"x": 10, "y": 10}})
    whole = load_dataset(tmp_path)
    bad = [files(whole, "a", "in")[3], files(whole, "b", "out")[0]]
    for name in bad:
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:100])
    with pytest.warns(UserWarning, match="2 unreadable files skipped: " + ", ".join(bad).replace(".", r"\.")):
        rest = load_dataset(tmp_path, skip_bad=True)
    for domain in whole.names:
        for split in ("in", "out"):
            names = files(whole, domain, split)
            keep = torch.tensor([name not in bad for name in names])
            assert files(rest, domain, split) == [name for name in names if name not in bad]
            assert torch.equal(rest.split(domain, split).targets, whole.split(domain, split).targets[keep])
    assert rest.classes == whole.classes


def test_wrong_structures(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_image(tmp_path / "flat" / "1.jpg")
    write_image(tmp_path / "classes" / "dog" / "1.jpg")
    (tmp_path / "none" / "photo" / "dog").mkdir(parents=True)
    for name, message in (
        ("empty", r"has no folders\. Found there: nothing"),
        ("flat", r"has no folders\. Found there: 1\.jpg"),
        ("classes", r"dog/1\.jpg is an image where the folder of a class"),
        ("none", r"no folder in .*photo has images\. Found there: dog"),
    ):
        with pytest.raises(
            ValueError, match=rf"domain/class/image, for instance {name}/photo/dog/1\.jpg, but .*{message}"
        ):
            load_dataset(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"PACS does not exist\. Run 'momentalign data fetch pacs'"):
        load_dataset("pacs", root=tmp_path)
    write_image_folder(tmp_path / "PACS", {"photo": {"dog": 1}, "cartoon": {"dog": 1}, "art": {"dog": 1}})
    with pytest.raises(ValueError, match=r"but art_painting, sketch are missing\. Found: art, cartoon, photo\."):
        load_dataset("pacs", root=tmp_path)


def test_links_are_followed_but_never_in_a_circle(tmp_path: Path) -> None:
    for domain in ("day", "night"):
        for label in ("cat", "dog"):
            write_image(tmp_path / "set" / domain / label / "1.png")
    write_image(tmp_path / "elsewhere" / "2.png")
    dog = tmp_path / "set" / "day" / "dog"
    (dog / "more").symlink_to(tmp_path / "elsewhere")
    (dog / "loop").symlink_to(dog)
    (dog / "up.jpg").symlink_to(dog.parent)
    (tmp_path / "set" / "day" / "itself").symlink_to(tmp_path / "set" / "day" / "itself")
    data = load_dataset(tmp_path / "set", holdout=0)
    files = data.split("day", "in").inputs
    assert isinstance(files, ImageFiles)
    assert sorted(files.names) == ["day/cat/1.png", "day/dog/1.png", "day/dog/more/2.png"]
