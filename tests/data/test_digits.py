import gzip
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import ndimage
from sklearn.datasets import load_digits
from torch import Tensor

from momentalign.data import (
    ColoredDigits,
    ColoredMNIST,
    RotatedDigits,
    RotatedMNIST,
    Split,
    color_domains,
    holdout_indices,
    load_dataset,
    rotate,
    rotate_domains,
    seed_hash,
    split_in_out,
    verify,
)
from momentalign.data._digits import embedded_digits, mnist_digits, read_idx
from tests.data.files import write_idx, write_mnist

pytestmark = pytest.mark.slow

FLIPS = {"+90%": 0.1, "+80%": 0.2, "-90%": 0.9}


def colors(rows: Split) -> Tensor:
    """Which channel holds the image."""
    return rows.inputs.flatten(2).sum(2).argmax(1)


@pytest.fixture(scope="module")
def many() -> dict[str, Split]:
    # Each image carries its own number in its first pixel and its digit in the second, so that both can be read back.
    n = 30_000
    labels = torch.arange(n) % 10
    images = torch.stack([torch.arange(n) + 1.0, labels + 1.0], dim=1).unsqueeze(1)
    return color_domains(images, labels, seed=0)


def test_domains_share_no_image(many: dict[str, Split]) -> None:
    numbers = torch.cat([rows.inputs[..., 0].sum((1, 2)) for rows in many.values()])
    assert torch.equal(numbers.sort().values, torch.arange(30_000) + 1.0)


def test_one_channel_is_empty(many: dict[str, Split]) -> None:
    for rows in many.values():
        filled = rows.inputs.flatten(2).sum(2) > 0
        assert torch.equal(filled.sum(1), torch.ones(len(rows), dtype=torch.long))


def test_rates_of_label_noise_and_color(many: dict[str, Split]) -> None:
    # 10,000 draws a domain: five standard errors are at most 0.022.
    for name, rows in many.items():
        digits = rows.inputs[..., 1].sum((1, 2)) - 1
        noise = (rows.targets != (digits < 5)).double().mean().item()
        contradiction = (rows.targets != colors(rows)).double().mean().item()
        assert noise == pytest.approx(0.25, abs=0.022)
        assert contradiction == pytest.approx(FLIPS[name], abs=0.022)


def test_same_seed_same_data() -> None:
    images, labels = torch.rand(99, 4, 4), torch.arange(99) % 10
    first, again, other = (color_domains(images, labels, seed=seed) for seed in (5, 5, 6))
    for name in FLIPS:
        assert torch.equal(first[name].inputs, again[name].inputs)
        assert torch.equal(first[name].targets, again[name].targets)
    assert not torch.equal(first["+90%"].inputs, other["+90%"].inputs)


def test_colored_digits() -> None:
    data = ColoredDigits()
    assert data.names == tuple(FLIPS)
    assert data.num_classes == 2
    for name in data.names:
        inside, outside = data.split(name, "in"), data.split(name, "out")
        assert (len(inside), len(outside)) == (20 * 480, 20 * 119)
        assert inside.inputs.shape[1:] == (2, 8, 8)
        assert inside.inputs.dtype == torch.float32
        assert inside.targets.dtype == torch.int64
        assert inside.inputs.amin() == 0
        assert inside.inputs.amax() == 1
    assert repr(data).startswith("ColoredDigits('colored-digits', 2 classes; +90%: 9600 in + 2380 out")


@pytest.mark.parametrize("trial", [0, 3])
def test_digits_that_are_drawn_once(trial: int) -> None:
    """The recipe row by row: what the set was before digits were drawn several times."""
    images, labels = load_digits(return_X_y=True)
    random = np.random.RandomState(seed_hash("data", trial))
    order = random.permutation(len(images))
    data = ColoredDigits(trial, draws=1)
    for index, (name, flip) in enumerate(FLIPS.items()):
        rows = order[index::3]
        noise, contradicts = random.random_sample(len(rows)) < 0.25, random.random_sample(len(rows)) < flip
        inputs, targets = np.zeros((len(rows), 2, 8, 8), dtype=np.float32), []
        for row, (digit, noisy, other) in enumerate(zip(rows, noise, contradicts, strict=True)):
            targets.append(int((labels[digit] < 5) != noisy))
            inputs[row, int(targets[-1] != other)] = images[digit].reshape(8, 8) / 16
        for split, indices in zip(("in", "out"), holdout_indices(599, trial, index), strict=True):
            found = data.split(name, split)
            assert torch.equal(found.tensor, torch.from_numpy(inputs)[indices])
            assert torch.equal(found.targets, torch.tensor(targets)[indices])


@pytest.mark.parametrize(("draws", "holdout", "held_out"), [(7, 0.2, 19), (20, 0.5, 49), (3, 0.0, 0)])
def test_draws_of_an_image_are_in_one_split_of_one_domain(draws: int, holdout: float, held_out: int) -> None:
    numbered = (torch.arange(297) + 1.0)[:, None, None].expand(-1, 1, 2)  # an image is its own number
    colored = color_domains(numbered, torch.arange(297) % 10, seed=0, draws=draws)
    divided = split_in_out(colored, 0, fraction=holdout, copies=draws)
    seen: list[int] = []
    for splits in divided.values():
        assert (len(splits["in"]), len(splits["out"])) == (draws * (99 - held_out), draws * held_out)
        for rows in splits.values():
            shown = rows.tensor.amax((1, 2, 3)).reshape(-1, draws)
            assert torch.equal(shown, shown[:, :1].expand(-1, draws))
            seen += shown[:, 0].int().tolist()
    assert sorted(seen) == list(range(1, 298))


def test_every_draw_has_its_own_noise_and_colour() -> None:
    # 599 digits of 20 draws: five standard errors of a share are at most 0.023, of draws that agree by chance far less.
    for name, flip in FLIPS.items():
        rows = ColoredDigits().domains[name]
        targets, shown = (torch.cat([find(part) for part in rows.values()]) for find in (lambda r: r.targets, colors))
        assert (targets != shown).double().mean().item() == pytest.approx(flip, abs=0.023)
        shares = targets.reshape(-1, 20).double().mean(1)
        assert torch.minimum(shares, 1 - shares).mean().item() == pytest.approx(0.25, abs=0.023)
        assert ((targets != shown).reshape(-1, 20).double().mean(1) - flip).std().item() == pytest.approx(
            (flip * (1 - flip) / 20) ** 0.5, rel=0.15
        )


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: ColoredDigits(draws=0), ValueError, "'draws' should be at least 1, but is 0"),
        (lambda: ColoredDigits(draws=2.5), TypeError, r"'draws' should be an integer, but is 2\.5"),
        (lambda: ColoredDigits(-1), ValueError, "'trial' should be at least 0, but is -1"),
        (lambda: color_domains(torch.zeros(9, 1, 8, 8), torch.zeros(9), seed=0), ValueError, r"\(9, 1, 8, 8\)"),
        (lambda: color_domains(torch.zeros(9, 8, 8), torch.zeros(8), seed=0), ValueError, r"\(9\), .*\(8,\)"),
    ],
)
def test_bad_arguments(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


REAL = Path(os.environ.get("MOMENTALIGN_DATA", "")) / "mnist"
needs_mnist = pytest.mark.skipif(
    "MOMENTALIGN_DATA" not in os.environ or not REAL.is_dir(),
    reason="needs the folder mnist in the folder that MOMENTALIGN_DATA names",
)


def test_both_parts_are_read_in_order(tmp_path: Path) -> None:
    images, labels = mnist_digits(write_mnist(tmp_path) / "mnist")
    assert images.shape == (72, 28, 28)
    assert (images[:, 5, 5] * 255).round().long().tolist() == list(range(72))
    assert labels.tolist() == [k % 10 for k in range(72)]
    assert labels.dtype == torch.int64


def test_colored_and_rotated(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    colored = ColoredMNIST(root=tmp_path)
    assert colored.name == "colored-mnist"
    assert colored.split("+80%", "in").tensor.shape == (20, 2, 28, 28)
    assert colored.split("+80%", "out").tensor.shape == (4, 2, 28, 28)
    rotated = RotatedMNIST(root=tmp_path, holdout=0.5)
    assert rotated.split("45", "out").tensor.shape == (6, 1, 28, 28)
    assert rotated.split("45", "out").tensor.amax() <= 71 / 255


def test_files_may_lie_unpacked(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    path = tmp_path / "mnist" / "train-labels-idx1-ubyte.gz"
    path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
    path.unlink()
    assert len(mnist_digits(tmp_path / "mnist")[1]) == 72


def test_missing_file_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"mnist/train-images-idx3-ubyte\.gz does not exist.*data fetch mnist"):
        load_dataset("colored-mnist", root=tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"not gzip",
        gzip.compress(b"\x00\x00\x08\x01\x00\x00\x00\x05abc", mtime=0),
        gzip.compress(b"", mtime=0),
        gzip.compress(b"\x00\x00\x08\x03\x00", mtime=0),
        gzip.compress(b"\x00\x00\x08\x01\x00\x00\x00\x05abcde", mtime=0)[:-6],
    ],
    ids=["no gzip", "too short", "empty", "half a header", "cut off"],
)
def test_broken_files(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(content)
    with pytest.raises(ValueError, match="should be a gzipped idx file of bytes"):
        read_idx(tmp_path / "x.gz")


def test_images_and_labels_of_different_number(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    write_idx(tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz", np.zeros(11))
    with pytest.raises(ValueError, match=r"\(72, 28, 28\) and \(71,\).*data verify mnist"):
        ColoredMNIST(root=tmp_path)


@needs_mnist
def test_real_files_have_the_published_checksums() -> None:
    assert verify("mnist", REAL.parent) == []


@needs_mnist
def test_real_colored_mnist() -> None:
    data = ColoredMNIST(root=REAL.parent)
    assert [len(data.split(name, "in")) for name in data.names] == [18668, 18667, 18667]
    assert [len(data.split(name, "out")) for name in data.names] == [4666, 4666, 4666]
    # Five standard errors of 18,667 draws are 0.018 at most.
    for name, flip in (("+90%", 0.1), ("+80%", 0.2), ("-90%", 0.9)):
        rows = data.split(name, "in")
        colors = rows.tensor.flatten(2).sum(2).argmax(1)
        assert (colors != rows.targets).double().mean().item() == pytest.approx(flip, abs=0.018)
    checksum = hashlib.sha256((data.split("-90%", "out").tensor * 255).round().to(torch.uint8).numpy().tobytes())
    assert checksum.hexdigest()[:16] == "c9c9f54fbe2b98c1"


@needs_mnist
def test_real_rotated_mnist() -> None:
    data = RotatedMNIST(root=REAL.parent)
    assert [len(data.split(name, "in")) for name in data.names] == [9334] * 4 + [9333] * 2
    assert data.split("0", "in").targets[:8].tolist() == [5, 4, 7, 5, 5, 0, 8, 8]
    rows = data.split("75", "out")
    assert rows.tensor.shape == (2333, 1, 28, 28)
    assert rows.tensor.double().mean().item() == pytest.approx(0.131050019, abs=1e-8)


@pytest.mark.parametrize("degrees", [15, 30, 45, 60, 75, 90, 137, -20])
@pytest.mark.parametrize("shape", [(8, 8), (7, 9), (28, 28)])
def test_rotation_is_scipys(degrees: float, shape: tuple[int, int]) -> None:
    images = torch.rand(3, 2, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turned = rotate(images, degrees)
    for image, found in zip(images.flatten(0, 1), turned.flatten(0, 1), strict=True):
        expected = ndimage.rotate(image.numpy(), degrees, order=1, mode="grid-constant", reshape=False, prefilter=False)
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_positive_angles_turn_counter_clockwise() -> None:
    image = torch.arange(9.0).reshape(1, 1, 3, 3)
    np.testing.assert_allclose(rotate(image, 90), torch.rot90(image, 1, (2, 3)), atol=1e-6)


def test_a_point_by_hand() -> None:
    # The right neighbour of the centre, turned by 45 degrees. A pixel sees it as much as the place that the pixel comes
    # from is near to it, in x times in y.
    image = torch.zeros(1, 1, 3, 3, dtype=torch.float64)
    image[0, 0, 1, 2] = 1
    half = 0.5**0.5
    expected = torch.zeros(3, 3, dtype=torch.float64)
    expected[0, 2] = 1 - (2 * half - 1)  # comes from √2 to the right: 0.41 beyond the point
    expected[0, 1] = expected[1, 2] = half * (1 - half)  # comes from (√½, ±√½): both distances are below one
    np.testing.assert_allclose(rotate(image, 45)[0, 0], expected, atol=1e-12)


def test_no_turn_changes_nothing() -> None:
    images = torch.rand(2, 1, 8, 8)
    assert torch.equal(rotate(images, 0), images)
    assert torch.equal(rotate(images, 360), images)


def test_rotated_domains_share_no_image() -> None:
    labels = torch.arange(600)
    domains = rotate_domains(torch.zeros(600, 4, 4), labels, seed=0)
    assert list(domains) == ["0", "15", "30", "45", "60", "75"]
    assert all(len(rows) == 100 for rows in domains.values())
    assert torch.equal(torch.cat([rows.targets for rows in domains.values()]).sort().values, labels)


def test_domains_are_turned_by_their_name() -> None:
    images, _ = embedded_digits()
    domains = rotate_domains(images, torch.arange(len(images)), seed=3)
    for name, rows in domains.items():
        original = images[rows.targets].unsqueeze(1)
        assert torch.equal(rows.tensor, rotate(original, float(name)))
        assert rows.tensor.dtype == torch.float32


def test_rotated_digits() -> None:
    data = RotatedDigits()
    assert (data.name, data.num_classes, data.training_recipe) == ("rotated-digits", 10, "mnist")
    assert [len(data.split(name, "in")) + len(data.split(name, "out")) for name in data.names] == [300] * 3 + [299] * 3
    assert data.split("0", "in").tensor.shape == (240, 1, 8, 8)
    assert not torch.equal(RotatedDigits(1).split("0", "in").tensor, data.split("0", "in").tensor)
    # Golden: the first rows of a trial stay what they are from release to release.
    assert data.split("0", "in").targets[:8].tolist() == [9, 9, 4, 6, 7, 7, 6, 5]
    assert data.split("75", "out").tensor.double().sum().item() == pytest.approx(1137.19333, abs=1e-4)
