"""From rows to inputs: tensors, image files and their augmentation."""

import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from momentalign.data import ImageFiles, Texts
from momentalign.encoders import (
    ImagePreprocessing,
    Preprocessing,
    TensorPreprocessing,
    read_rows,
)
from tests.encoders.models import pixels, write_images


def test_tensors_stay_and_bytes_are_scaled() -> None:
    preprocessing = TensorPreprocessing((2, None, None))
    rows = torch.rand(4, 2, 8, 8)
    assert preprocessing.open(rows) is rows
    assert preprocessing.to_inputs(rows) is rows
    assert preprocessing.augment(rows) is rows
    assert torch.equal(
        preprocessing.to_inputs(torch.tensor([0, 51, 255], dtype=torch.uint8)), torch.tensor([0, 0.2, 1])
    )
    assert preprocessing.to_inputs(torch.tensor([3])).dtype == torch.float32


def test_tensors_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"rows of shape \(13,\), but these have shape \(12,\)"):
        TensorPreprocessing((13,)).open(torch.zeros(3, 12))
    with pytest.raises(ValueError, match="takes tensors, but these rows are texts"):
        TensorPreprocessing((13,)).open(Texts(["a"]))


def files(root: Path) -> ImageFiles:
    write_images(root)
    return ImageFiles(sorted(root.rglob("*.png")), root)


def test_files_are_decoded_and_normalised(tmp_path: Path) -> None:
    preprocessing = ImagePreprocessing(16, mean=(0.1, 0.2, 0.3), std=(0.5, 0.4, 0.3))
    images = files(tmp_path)
    opened = preprocessing.open(images)
    assert isinstance(opened, Dataset)
    raw = next(iter(DataLoader(opened, batch_size=5)))
    assert raw.shape == (5, 3, 16, 16)
    assert raw.dtype == torch.uint8
    assert torch.equal(raw[4], images.decode(4, 16))
    mean, std = torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1), torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1)
    torch.testing.assert_close(preprocessing.to_inputs(raw), (raw / 255 - mean) / std)


def test_bytes_of_another_size_are_resized_as_files_are(tmp_path: Path) -> None:
    images = files(tmp_path)
    preprocessing = ImagePreprocessing(16, mean=(0, 0, 0), std=(1, 1, 1))
    large = torch.stack([images.decode(index, 40) for index in range(4)])
    small = torch.stack([images.decode(index, 16) for index in range(4)])
    assert (preprocessing.to_inputs(large) - small / 255).abs().max() < 2 / 255
    prepared = preprocessing.to_inputs(large)
    assert preprocessing.to_inputs(prepared) is prepared


@pytest.mark.parametrize(
    "rows",
    [
        torch.zeros(2, 3, 8, 8),
        torch.zeros(2, 1, 8, 8, dtype=torch.uint8),
        torch.zeros(2, 3, 16, 16, dtype=torch.long),
        torch.zeros(2, 5),
    ],
)
def test_tensors_that_are_no_images_are_refused(rows: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"bytes \(torch\.uint8\) of shape \(3, height, width\)"):
        ImagePreprocessing(16).open(rows)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python 3.12 and 3.13, where threads run
@pytest.mark.parametrize("workers", [0, 1])
def test_an_unreadable_file_is_named_in_one_line(workers: int, tmp_path: Path) -> None:
    images = files(tmp_path)
    (tmp_path / images.names[3]).write_bytes(b"no image")
    opened = ImagePreprocessing(16).open(images)
    batches = torch.arange(len(images)).split(2)
    with pytest.raises(ValueError, match="should be an image") as caught:
        list(read_rows(opened, batches, workers=workers, pin_memory=False))
    assert str(caught.value).startswith(str(tmp_path / images.names[3]))
    assert "\n" not in str(caught.value)


def test_augmentation_is_random_seeded_and_different_for_each_image() -> None:
    preprocessing = ImagePreprocessing(32, mean=(0, 0, 0), std=(1, 1, 1))
    raw = pixels(1, 32).expand(8, -1, -1, -1)
    torch.manual_seed(0)
    first = preprocessing.augment(raw)
    other = preprocessing.augment(raw)
    torch.manual_seed(0)
    again = preprocessing.augment(raw)
    assert first.shape == (8, 3, 32, 32)
    assert first.dtype == torch.float32
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    assert len({tuple(image.flatten()[:50].tolist()) for image in first}) == 8
    assert 0 <= first.min() <= first.max() <= 1


def test_augmentation_resizes_and_normalises() -> None:
    plain, shifted = ImagePreprocessing(16, (0, 0, 0), (1, 1, 1)), ImagePreprocessing(16, (0.5,) * 3, (0.25,) * 3)
    raw = pixels(4, 24)
    torch.manual_seed(0)
    expected = (plain.augment(raw) - 0.5) / 0.25
    torch.manual_seed(0)
    torch.testing.assert_close(shifted.augment(raw), expected)
    assert expected.shape == (4, 3, 16, 16)


def test_augmentation_does_what_the_protocol_says() -> None:
    preprocessing = ImagePreprocessing(32, mean=(0, 0, 0), std=(1, 1, 1))
    # A ramp from left to right tells crop and flip, its colour the rest.
    ramp = torch.linspace(40, 160, 32).round()
    raw = torch.stack([ramp, 0.8 * ramp, 0.5 * ramp]).to(torch.uint8)[None, :, None].expand(400, -1, 32, -1)
    torch.manual_seed(0)
    images = preprocessing.augment(raw.contiguous())
    grey = (images.amax(1) - images.amin(1)).amax((1, 2)) < 1e-4
    assert 0.05 < grey.float().mean() < 0.16  # one in ten
    slope = (images[..., 31] - images[..., 0]).mean((1, 2))
    assert 0.4 < (slope > 0).float().mean() < 0.6  # flipped or not
    # Brightness and contrast between 0.7 and 1.3, a crop of at least 0.7 of the area.
    original = float(raw[0].float().mean() / 255)
    assert (images.mean((1, 2, 3)) > 0.4 * original).all()
    assert (images.mean((1, 2, 3)) < 1.9 * original).all()


def test_images_can_keep_their_orientation_or_not_be_augmented() -> None:
    ramp = torch.linspace(40, 160, 32).round().to(torch.uint8).expand(50, 3, 32, -1).contiguous()
    preprocessing = ImagePreprocessing(32, mean=(0, 0, 0), std=(1, 1, 1))
    preprocessing.augmentation = "no-flip"
    torch.manual_seed(0)
    images = preprocessing.augment(ramp)
    assert (images[..., 31] > images[..., 0]).all()
    assert len({float(image.mean()) for image in images}) == 50
    preprocessing.augmentation = "none"
    assert torch.equal(preprocessing.augment(ramp), preprocessing.to_inputs(ramp))


def test_normalised_images_are_not_augmented() -> None:
    images = torch.rand(2, 3, 16, 16)
    preprocessing = ImagePreprocessing(16)
    assert preprocessing.open(images) is images
    assert preprocessing.augment(images) is images
    assert preprocessing.augment(images.double()).dtype == torch.float32


def test_missing_kornia_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kornia.augmentation", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs kornia, .*'momentalign\[vision\]', or --augment none"):
        ImagePreprocessing(16).augment(pixels(1, 16))


@pytest.mark.parametrize(
    "preprocessing", [TensorPreprocessing((2, None, None)), ImagePreprocessing(96, (0.1, 0.2, 0.3))]
)
def test_comes_back_from_its_configuration(preprocessing: Preprocessing) -> None:
    again = type(preprocessing).from_config(preprocessing.config())
    assert again.config() == preprocessing.config()


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="three numbers each"):
        ImagePreprocessing(16, mean=(0.5,))
