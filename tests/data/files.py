"""Tiny files in the formats of the real data sets."""

import csv
import dataclasses
import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from momentalign.data._sources import SOURCES

PACS = ("art_painting", "cartoon", "photo", "sketch")


def write_image(path: Path, color: tuple[int, int, int] = (255, 0, 0), size: tuple[int, int] = (10, 8)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)
    return path


def write_image_folder(root: Path, counts: Mapping[str, Mapping[str, int]]) -> Path:
    """Images `root/domain/class/image.jpg`, so many by domain and class."""
    for domain, classes in counts.items():
        for label, count in classes.items():
            (root / domain / label).mkdir(parents=True, exist_ok=True)
            for k in range(count):
                write_image(root / domain / label / f"pic_{k:04d}.jpg", (20 * k % 256, 0, 0))
    return root


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def write_idx(path: Path, array: np.ndarray) -> Path:
    """An array of bytes as MNIST has them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    path.write_bytes(gzip.compress(header + array.astype(np.uint8).tobytes(), mtime=0))
    return path


def write_waterbirds(root: Path) -> Path:
    """`metadata.csv` as published: one image of each group in each split, plus a second of group 3 to train on."""
    folder = root / "waterbird_complete95_forest2water2"
    rows: list[list[object]] = []
    for split in (0, 1, 2):
        for y, place in ((0, 0), (0, 1), (1, 0), (1, 1), *([(1, 1)] if split == 0 else [])):
            name = f"{len(rows) + 1:03d}.Some_Bird/Some_Bird_{len(rows):04d}_{len(rows)}.jpg"
            write_image(folder / name)
            rows.append([len(rows) + 1, name, y, split, place, f"/l/lake/{len(rows):08d}.jpg"])
    write_csv(folder / "metadata.csv", ("img_id", "img_filename", "y", "split", "place", "place_filename"), rows)
    return folder


CELEBA_ROWS = (  # image, Blond_Hair, Male, Young, partition
    ("000001.jpg", 1, -1, 1, 0),
    ("000002.jpg", -1, 1, 1, 0),
    ("000003.jpg", 1, 1, -1, 0),
    ("000004.jpg", -1, -1, 1, 1),
    ("000005.jpg", 1, -1, 1, 1),
    ("000006.jpg", -1, 1, -1, 2),
)


def write_celeba(root: Path, *, text: bool = False, nested: bool = False) -> Path:
    """CelebA's tables, as on Kaggle (.csv) or as its authors distribute them (.txt), with the images."""
    folder = root / "celeba"
    images = folder / "img_align_celeba" / ("img_align_celeba" if nested else "")
    for name, *_ in CELEBA_ROWS:
        write_image(images / name)
    if text:
        lines = [f"{row[0]} {row[1]:2d} {row[2]:2d} {row[3]:2d} " for row in CELEBA_ROWS]
        header = f"{len(CELEBA_ROWS)}\nBlond_Hair Male Young \n"
        (folder / "list_attr_celeba.txt").write_text(header + "\n".join(lines) + "\n")
        lines = [f"{row[0]} {row[4]}" for row in CELEBA_ROWS]
        (folder / "list_eval_partition.txt").write_text("\n".join(lines) + "\n")
    else:
        header = ("image_id", "Blond_Hair", "Male", "Young")
        write_csv(folder / "list_attr_celeba.csv", header, [row[:4] for row in CELEBA_ROWS])
        partition = [(row[0], row[4]) for row in CELEBA_ROWS]
        write_csv(folder / "list_eval_partition.csv", ("image_id", "partition"), partition)
    return folder


MULTINLI_PAIRS = {  # part -> (gold label, hypothesis)
    "train": (
        ("neutral", "Nobody came."),
        ("-", "It has no label."),
        ("entailment", "They left."),
        ("contradiction", "No!"),
    ),
    "dev_matched": (("contradiction", "He knows nothing at all."), ("neutral", "A noble cause.")),
    "dev_mismatched": (("entailment", "It never, ever rains."), ("contradiction", "It rains.")),
}
# Row in the three files one after the other, gold_label, sentence2_has_negation, split.
MULTINLI_METADATA = (
    (0, 2, 1, 0), (2, 1, 0, 0), (3, 0, 1, 1), (4, 0, 1, 2), (5, 2, 0, 0), (6, 1, 1, 0), (7, 0, 0, 1),
)  # fmt: skip


def write_multinli(root: Path) -> Path:
    folder = root / "multinli_1.0"
    folder.mkdir(parents=True)
    for part, pairs in MULTINLI_PAIRS.items():
        lines = []
        for k, (label, hypothesis) in enumerate(pairs):
            premise = f"Premise {k} of {part}."
            fields = {"annotator_labels": [label], "genre": "fiction", "gold_label": label, "pairID": f"{part}{k}n"}
            fields |= {"promptID": str(k), "sentence1": premise, "sentence1_parse": f"(ROOT {premise})"}
            lines.append(json.dumps(fields | {"sentence2": hypothesis, "sentence2_parse": f"(ROOT {hypothesis})"}))
        (folder / f"multinli_1.0_{part}.jsonl").write_text("\n".join(lines) + "\n")
    header = ("", "gold_label", "sentence2_has_negation", "split")
    write_csv(folder / "metadata_random.csv", header, MULTINLI_METADATA)
    return folder


def write_mnist(root: Path) -> Path:
    """Sixty images to train on and twelve to test, in the real format; image k is k everywhere."""
    images = np.arange(72, dtype=np.uint8)[:, None, None] * np.ones((1, 28, 28), np.uint8)
    for part, rows in (("train", slice(0, 60)), ("t10k", slice(60, 72))):
        write_idx(root / "mnist" / f"{part}-images-idx3-ubyte.gz", images[rows])
        write_idx(root / "mnist" / f"{part}-labels-idx1-ubyte.gz", images[rows, 0, 0] % 10)
    return root


CAMERA_TRAPS = {
    "categories": [{"id": 1, "name": "opossum"}, {"id": 6, "name": "bobcat"}, {"id": 33, "name": "car"}],
    "images": [
        {"id": "a-1", "file_name": "a-1.jpg", "location": "38"},
        {"id": "b-2", "file_name": "b-2.jpg", "location": 100},
        {"id": "c-3", "file_name": "c-3.jpg", "location": "7"},
        {"id": "d-4", "file_name": "d-4.jpg", "location": "38"},
        {"id": "e-5", "file_name": "not in the archive.jpg", "location": "38"},
    ],
    "annotations": [
        {"id": "1", "image_id": "a-1", "category_id": 1},
        {"id": "2", "image_id": "a-1", "category_id": 6},
        {"id": "3", "image_id": "b-2", "category_id": 6},
        {"id": "4", "image_id": "c-3", "category_id": 6},
        {"id": "5", "image_id": "d-4", "category_id": 33},
        {"id": "6", "image_id": "e-5", "category_id": 1},
        {"id": "7", "image_id": "b-2", "category_id": 6},
    ],
}


def write_camera_traps(folder: Path) -> Path:
    for name in ("a-1.jpg", "b-2.jpg", "c-3.jpg", "d-4.jpg"):
        write_image(folder / "eccv_18_all_images_sm" / name)
    (folder / "caltech_images_20210113.json").write_text(json.dumps(CAMERA_TRAPS))
    return folder


def pack(folder: Path, kind: str, prefix: str = "") -> bytes:
    """All files of a folder in an archive."""
    buffer = io.BytesIO()
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w") as archive:
            for path in paths:
                archive.write(path, prefix + path.relative_to(folder).as_posix())
    else:
        with tarfile.open(fileobj=buffer, mode="w:gz" if kind == "tar.gz" else "w") as tar:
            for path in paths:
                tar.add(path, prefix + path.relative_to(folder).as_posix())
    return buffer.getvalue()


def pack_pacs(folder: Path, kind: str = "zip", prefix: str = "kfold/") -> bytes:
    return pack(write_image_folder(folder, {domain: {"dog": 3, "cat": 2} for domain in PACS}), kind, prefix)


def set_source(monkeypatch: pytest.MonkeyPatch, name: str, **changes: object) -> None:
    """Change a source for a test."""
    monkeypatch.setitem(SOURCES, name, dataclasses.replace(SOURCES[name], **changes))  # type: ignore[arg-type]
    return SOURCES[name]
