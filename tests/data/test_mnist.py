import gzip
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from momentalign.data import ColoredMNIST, RotatedMNIST, load_dataset, verify
from momentalign.data._digits import mnist_digits, read_idx
from tests.data.files import write_idx, write_mnist

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
    assert len(mnist_digits(tmp_path / "mnist").labels) == 72


def test_missing_file_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"mnist/train-images-idx3-ubyte\.gz does not exist.*data fetch mnist"):
        load_dataset("colored-mnist", root=tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not gzip", "should be a gzipped idx file, but cannot be read"),
        (gzip.compress(b"\x00\x00\x08\x01\x00\x00\x00\x05abc"), "its header and its length do not fit"),
        (gzip.compress(b"\x00\x00\x0d\x01\x00\x00\x00\x01abcd"), "its header and its length do not fit"),
        (gzip.compress(b""), "its header and its length do not fit"),
        (gzip.compress(b"\x00\x00\x08\x03\x00"), "its header and its length do not fit"),
        (gzip.compress(b"\x00\x00\x08\x01\x00\x00\x00\x05abcde")[:-6], "should be a gzipped idx file"),
    ],
    ids=["no gzip", "too short", "no bytes", "empty", "half a header", "cut off"],
)
def test_broken_files(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(content)
    with pytest.raises(ValueError, match=message):
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
