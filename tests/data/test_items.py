import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from momentalign.data import ImageFiles, Split, Texts
from tests.data.files import write_image


@pytest.fixture
def images(tmp_path: Path) -> ImageFiles:
    paths = [write_image(tmp_path / "a" / f"{k}.png", (k, 2 * k, 3 * k)) for k in range(4)]
    return ImageFiles(paths, tmp_path)


def test_images_have_names_and_rows(images: ImageFiles) -> None:
    assert images.names == ["a/0.png", "a/1.png", "a/2.png", "a/3.png"]
    drawn = images.rows(torch.tensor([3, 1, 1]))
    assert drawn.names == ["a/3.png", "a/1.png", "a/1.png"]
    assert len(drawn) == 3
    assert drawn.decode(0, 2)[:, 0, 0].tolist() == [3, 6, 9]


def test_images_travel_to_workers(images: ImageFiles) -> None:
    assert torch.equal(pickle.loads(pickle.dumps(images)).decode(2, 5), images.decode(2, 5))


def test_decode_is_pillows_bilinear_resize(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 13, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    decoded = ImageFiles([tmp_path / "x.png"], tmp_path).decode(0, 6)
    expected = np.asarray(Image.fromarray(pixels).resize((6, 6), Image.Resampling.BILINEAR))
    assert decoded.dtype == torch.uint8
    assert decoded.shape == (3, 6, 6)
    assert decoded.is_contiguous()
    np.testing.assert_array_equal(decoded.permute(1, 2, 0).numpy(), expected)


@pytest.mark.parametrize("mode", ["L", "RGBA", "CMYK", "P", "1", "LA"])
def test_every_mode_becomes_rgb(mode: str, tmp_path: Path) -> None:
    suffix = "jpg" if mode == "CMYK" else "png"
    Image.new("RGB", (4, 4), (0, 0, 0)).convert(mode).save(tmp_path / f"x.{suffix}")
    assert ImageFiles([tmp_path / f"x.{suffix}"], tmp_path).decode(0, 4).shape == (3, 4, 4)


def test_palettes_with_transparency_do_not_warn(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((1, 0), 1)
    image.save(tmp_path / "x.png", transparency=b"\x80\xff")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decoded = ImageFiles([tmp_path / "x.png"], tmp_path).decode(0, 2)
    assert decoded[:, 0].T.tolist() == [[10, 20, 30], [40, 50, 60]]


@pytest.mark.parametrize("kind", ["text", "empty", "truncated", "missing"])
def test_unreadable_image_is_named(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "photo" / "bad.jpg"
    path.parent.mkdir()
    if kind == "truncated":
        noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(noise).save(path)
        path.write_bytes(path.read_bytes()[:1500])
    elif kind != "missing":
        path.write_text("no image" if kind == "text" else "")
    what = "does not exist" if kind == "missing" else "cannot be read"
    with pytest.raises(ValueError, match=rf"photo/bad\.jpg should be an image, but {what}.* '--skip-bad-files'"):
        ImageFiles([path], tmp_path).decode(0, 8)
    with pytest.raises(ValueError, match=r"in a command, with skip_bad=True of load_dataset in Python\.$"):
        ImageFiles([path], tmp_path).decode(0, 8)
    good = write_image(tmp_path / "good.jpg")
    assert ImageFiles([path, good, path], tmp_path).readable().tolist() == [1]


def test_texts() -> None:
    pairs = Texts(["a", "b", "c"], ["x", "y", "z"], ["id0", "id1", "id2"])
    drawn = pairs.rows(torch.tensor([2, 0, 2]))
    assert (drawn.first, drawn.second, drawn.names) == (["c", "a", "c"], ["z", "x", "z"], ["id2", "id0", "id2"])
    single = Texts(["a", "b"])
    assert single.names == ["0", "1"]
    assert single.rows(torch.tensor([1])).second is None
    assert single.rows(torch.tensor([1])).names == ["1"]


def test_texts_are_joined() -> None:
    first, second = Texts(["a"], ["x"], ["id0"]), Texts(["b", "c"], ["y", "z"], ["id1", "id2"])
    both = Texts.joined([first, second])
    assert (both.first, both.second, both.names) == (["a", "b", "c"], ["x", "y", "z"], ["id0", "id1", "id2"])
    assert Texts.joined([Texts(["a"]), Texts(["b"])]).second is None
    assert both.content() != Texts(both.first, ["x", "y", "other"]).content()


def test_image_files_are_joined(images: ImageFiles) -> None:
    half = images.rows(torch.tensor([0, 1])), images.rows(torch.tensor([2, 3]))
    assert ImageFiles.joined(half).names == images.names
    assert images.content() == b""


def test_texts_reject_unequal_lengths() -> None:
    with pytest.raises(ValueError, match=r"'second' should have one entry per sentence \(2\), but has 1"):
        Texts(["a", "b"], ["x"])
    with pytest.raises(ValueError, match=r"'names' should have one entry per row \(2\), but has 3"):
        Texts(["a", "b"], None, ["1", "2", "3"])


def test_split_of_items(images: ImageFiles) -> None:
    rows = Split(images, torch.arange(4), torch.tensor([1, 1, 0, 0]))
    drawn = rows.rows(torch.tensor([3, 0]))
    assert isinstance(drawn.inputs, ImageFiles)
    assert drawn.inputs.names == ["a/3.png", "a/0.png"]
    assert drawn.targets.tolist() == [3, 0]
    assert drawn.groups is not None
    assert drawn.groups.tolist() == [0, 1]
    assert repr(rows) == "Split(4 ImageFiles)"
    assert rows.to("cpu").inputs is images
    with pytest.raises(TypeError, match=r"'inputs' should be a tensor, but is ImageFiles\(4\)"):
        _ = rows.tensor
