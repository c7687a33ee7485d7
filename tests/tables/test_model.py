from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors import SafetensorError

from momentalign._model_file import MODEL as FILE
from momentalign._model_file import read_model, write_model
from momentalign.tables import Column, TableEncoder, TableModel

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
    assert sorted(path.name for path in (tmp_path / "deep" / "model").iterdir()) == ["model.safetensors"]
    loaded = TableModel.load(tmp_path / "deep" / "model")
    assert loaded.encoder.columns == COLUMNS
    assert loaded.classes == classes
    assert loaded.about == MODEL.about
    np.testing.assert_array_equal(loaded.logits(ROWS)[0], model.logits(ROWS)[0])


@pytest.mark.parametrize("damage", ["nothing", "file", "other kind", "cut", "shape", "not safetensors", "old"])
def test_folders_that_are_no_model(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    if damage == "file":
        folder.write_text("")
    elif damage != "nothing":
        MODEL.save(folder)
        path = folder / FILE
        about, arrays = read_model(path, "np")
        if damage == "other kind":
            write_model(path, arrays, about | {"kind": "sofa"})
        elif damage == "cut":
            path.write_bytes(path.read_bytes()[:-1])
        elif damage == "shape":
            write_model(path, arrays, about | {"columns": about["columns"][:1]})
        elif damage == "old":
            path.unlink()
            (folder / "model.json").write_text('{"format": 1, "momentalign": "0.1.0"}')
        else:
            path.write_bytes(b"PK nonsense")
    named = r"0\.1\.0" if damage == "old" else "model"
    with pytest.raises(ValueError, match=named) as caught:
        TableModel.load(folder)
    assert "\n" not in str(caught.value)


def test_a_full_disk_keeps_the_model_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MODEL.save(tmp_path)
    other = TableModel(ENCODER, -MODEL.coef, MODEL.intercept, MODEL.classes, {"target": "healthy"})

    def full(arrays: object, path: Path, metadata: object) -> None:
        path.write_bytes(b"half")
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    with monkeypatch.context() as patch:
        patch.setattr("safetensors.numpy.save_file", full)
        with pytest.raises(OSError, match="No space"):
            other.save(tmp_path)
    loaded = TableModel.load(tmp_path)
    assert loaded.about == MODEL.about
    np.testing.assert_array_equal(loaded.coef, MODEL.coef)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.safetensors"]
