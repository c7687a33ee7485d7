"""The pretrained MobileNetV2 on images of PACS, where both are at hand."""

import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from momentalign.data import load_dataset
from momentalign.encoders import build_encoder, embed
from momentalign.tables import read_table

DATA = Path(os.environ.get("MOMENTALIGN_DATA", ""))
MODEL = DATA / "encoders" / "mobilenet_v2"
IMAGES = DATA / "pacs" / "PACS_112px_q85.tar"
PER_CLASS = 18
CLASSES = ("dog", "giraffe", "guitar", "house")

pytestmark = [
    pytest.mark.skipif(
        "MOMENTALIGN_DATA" not in os.environ or not MODEL.is_dir() or not IMAGES.is_file(),
        reason="needs $MOMENTALIGN_DATA with encoders/mobilenet_v2 and pacs",
    ),
    pytest.mark.slow,
]


def extract(folder: Path) -> None:
    """A few files of each class, of two domains."""
    counts: dict[Path, int] = {}
    with tarfile.open(IMAGES) as archive:
        for member in archive:
            path = Path(member.name)
            if not member.isfile() or path.parts[0] not in ("photo", "cartoon") or path.parts[1] not in CLASSES:
                continue
            counts[path.parent] = counts.get(path.parent, 0) + 1
            if counts[path.parent] <= PER_CLASS:
                (folder / path.parent).mkdir(parents=True, exist_ok=True)
                content = archive.extractfile(member)
                (folder / path).write_bytes((content or io.BytesIO()).read())


def test_its_features_know_the_classes(tmp_path: Path) -> None:
    extract(tmp_path / "pacs")
    data = load_dataset(tmp_path / "pacs")
    encoder = build_encoder(f"{MODEL}?size=112", data)
    assert encoder.num_features == 1280
    table = read_table(embed(data, encoder, tmp_path / "features.parquet", batch_size=16))
    assert len(table.target) == 2 * len(CLASSES) * PER_CLASS
    X = StandardScaler().fit_transform(table.features.to_numpy())
    train = np.arange(len(X)) % 2 == 0
    classifier = LogisticRegression(C=0.01, max_iter=200).fit(X[train], table.target[train])
    assert classifier.score(X[~train], table.target[~train]) > 0.75  # chance is 0.25
    torch.manual_seed(0)
    random = build_encoder(f"hf-config:{MODEL}?size=112", data)
    assert "The encoder's weights are random." in random.notes
