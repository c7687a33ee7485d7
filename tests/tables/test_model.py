import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from momentalign.tables import Column, TableEncoder, TableModel, _model

COLUMNS = (Column("age", 3.0), Column("kind", categories=("a", "b")))
ENCODER = TableEncoder(COLUMNS, mean=np.array([1.0, 0.5, 0.5]), scale=np.array([2.0, 1.0, 1.0]))
MODEL = TableModel(
    ENCODER,
    coef=np.array([[1.0, 2.0, -2.0]]),
    intercept=np.array([0.25]),
    classes=("no", "yes"),
    about={"target": "ill", "chosen": {"l2": 0.1}},
)
ROWS = pd.DataFrame({"kind": ["a", "b", "q"], "age": [5.0, np.nan, 1.0], "file": ["u", "v", "w"]})


def test_answers_by_hand() -> None:
    logits, _ = MODEL.logits(ROWS)
    np.testing.assert_allclose(logits[:, 0], [2 + 1 + 1 + 0.25, 1 - 1 - 1 + 0.25, 0 - 1 + 1 + 0.25])
    probabilities = MODEL.probabilities(logits)
    np.testing.assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-logits[:, 0])))
    np.testing.assert_allclose(probabilities.sum(1), 1)


@pytest.mark.parametrize("matrix", [None, np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])])
def test_what_is_saved_is_loaded(matrix: np.ndarray | None, tmp_path: Path) -> None:
    coef = MODEL.coef if matrix is None else np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 3.0]])
    classes = ("no", "yes") if matrix is None else ("u", "v", "w")
    encoder = TableEncoder(COLUMNS, ENCODER.mean, ENCODER.scale, matrix)
    model = TableModel(encoder, coef, np.zeros(len(coef)), classes, MODEL.about)
    model.save(tmp_path / "deep" / "model")
    assert sorted(path.name for path in (tmp_path / "deep" / "model").iterdir()) == ["model.json", "model.safetensors"]
    loaded = TableModel.load(tmp_path / "deep" / "model")
    assert loaded.encoder.columns == COLUMNS
    assert loaded.classes == classes
    assert loaded.about == MODEL.about
    np.testing.assert_array_equal(loaded.logits(ROWS)[0], model.logits(ROWS)[0])


@pytest.mark.parametrize("damage", ["nothing", "file", "no json", "other kind", "torn", "shape", "not safetensors"])
def test_folders_that_are_no_model(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    if damage == "file":
        folder.write_text("")
    elif damage != "nothing":
        MODEL.save(folder)
        about = folder / "model.json"
        if damage == "no json":
            about.write_text("{")
        elif damage == "other kind":
            about.write_text(json.dumps(json.loads(about.read_text()) | {"kind": "sofa"}))
        elif damage == "torn":
            (folder / "model.safetensors").unlink()
        elif damage == "shape":
            content = json.loads(about.read_text())
            content["columns"] = content["columns"][:1]
            about.write_text(json.dumps(content))
        else:
            (folder / "model.safetensors").write_bytes(b"PK nonsense")
    with pytest.raises(ValueError, match="that 'momentalign probe' wrote, but") as caught:
        TableModel.load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("_KIND", "sofa", "it is something else; 'momentalign evaluate' takes trained runs as well."),
        ("_FORMAT", 2, "its format is 1, and this version reads 2."),
    ],
)
def test_other_models_and_formats(
    name: str, value: object, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    MODEL.save(tmp_path)
    monkeypatch.setattr(_model, name, value)
    with pytest.raises(ValueError, match=f"probe' wrote, but: {re.escape(message)}$"):
        TableModel.load(tmp_path)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_changed_bit_is_noticed(name: str, tmp_path: Path) -> None:
    MODEL.save(tmp_path)
    content = bytearray((tmp_path / name).read_bytes())
    content[content.index(b"ill") if name == "model.json" else -1] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"probe' wrote, but: .*{name} does not match its checksum\.$"):
        TableModel.load(tmp_path)


def test_a_full_disk_keeps_the_model_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of one model with the description of another would predict the wrong target."""
    MODEL.save(tmp_path)
    other = TableModel(ENCODER, -MODEL.coef, MODEL.intercept, MODEL.classes, {"target": "healthy"})
    written: list[str] = []

    def full(path: Path, content: str | bytes) -> None:
        if written:
            raise OSError(28, "No space left on device")
        written.append(path.name)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    with monkeypatch.context() as patch:
        patch.setattr("momentalign.tables._model.atomic_write", full)
        with pytest.raises(OSError, match="No space"):
            other.save(tmp_path)
    loaded = TableModel.load(tmp_path)
    assert loaded.about == MODEL.about
    np.testing.assert_array_equal(loaded.coef, MODEL.coef)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "model.safetensors"]
