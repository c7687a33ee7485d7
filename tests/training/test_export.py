"""Exported files against the networks they were made of."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner, Result

import momentalign
from momentalign.algorithms import Network
from momentalign.cli import app
from momentalign.data import TableRows
from momentalign.encoders import MLP, TablePreprocessing, TextPreprocessing, encoder_from_folder
from momentalign.training import Predictor, export_model, run
from tests.encoders.models import save_model
from tests.training.problems import small_config, three_domains

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, data = tmp_path_factory.mktemp("trained") / "run", three_domains()
    run(small_config(data, hparams={"dropout": 0.5}), folder, data=data)
    return folder


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def logits(path: Path, rows: Tensor) -> tuple[np.ndarray, list[str]]:
    """Logits of an exported file and its classes, read without this package."""
    if path.suffix == ".pt2":
        files = {"classes.json": ""}
        with torch.no_grad():
            found = torch.export.load(path, extra_files=files).module()(rows).numpy()
        return found, json.loads(files["classes.json"])
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"rows": rows.numpy()})[0], json.loads(
        session.get_modelmeta().custom_metadata_map["classes"]
    )


@pytest.mark.parametrize("ending", ["pt2", "onnx"])
def test_a_run_as_one_file(ending: str, trained: Path, tmp_path: Path) -> None:
    path = tmp_path / f"model.{ending}"
    done = invoke("export", trained, "-o", path)
    assert done.exit_code == 0, done.output
    assert "2 classes" in done.output
    assert list(tmp_path.iterdir()) == [path]
    model = momentalign.load(trained)
    rows = three_domains().split("a", "in").tensor
    for number in (1, 11):
        found, classes = logits(path, rows[:number])
        assert classes == list(model.classes)
        np.testing.assert_allclose(found, model(rows[:number]).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "ending"), [("resnet", "pt2"), ("bert", "onnx")])
def test_hugging_face_models(name: str, ending: str, tmp_path: Path) -> None:
    save_model(name, tmp_path / name)
    encoder = encoder_from_folder(tmp_path / name)
    model = Predictor(Network(encoder, encoder.num_features, 3), encoder.preprocessing, ["a", "b", "c"])
    path = tmp_path / f"model.{ending}"
    export_model(model, path)
    if isinstance(encoder.preprocessing, TextPreprocessing):
        rows = torch.randint(1, 5, (5, 3, encoder.preprocessing.length), dtype=torch.int32)
        rows[:, 1:] = torch.tensor([0, 1])[:, None]
        rows[:, 2, 9:] = 0  # padding
    else:
        rows = torch.randint(256, (5, 3, 32, 32), dtype=torch.uint8)
    np.testing.assert_allclose(logits(path, rows)[0], model(rows).detach().numpy(), rtol=1e-3, atol=1e-4)


def test_rows_of_a_table(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [40.0, 55.0, 61.0, 38.0], "sex": ["f", "m", "m", "f"]})
    preprocessing, _ = TablePreprocessing.learn(TableRows(frame))
    encoder = MLP(preprocessing.width, 8, preprocessing=preprocessing)
    model = Predictor(Network(encoder, 8, 2), preprocessing, ["ill", "well"])
    export_model(model, tmp_path / "model.pt2")
    rows = preprocessing.open(TableRows(frame))
    np.testing.assert_allclose(logits(tmp_path / "model.pt2", rows)[0], model(rows).detach().numpy(), rtol=1e-5)


def test_mistakes_are_one_line(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"should end in .pt2 or .onnx, but is 'model.h5'"):
        export_model(trained, tmp_path / "model.h5")
    with pytest.raises(ValueError, match=r"run.json"):
        export_model(tmp_path, tmp_path / "model.pt2")
    assert not list(tmp_path.iterdir())


def test_another_network_is_not_written(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, forward = momentalign.load(trained), Predictor.forward
    exported = torch.export.export

    def biased(*arguments: object, **options: object) -> object:
        monkeypatch.setattr(Predictor, "forward", lambda self, raw: forward(self, raw) + 1)
        program = exported(*arguments, **options)  # type: ignore[arg-type]
        monkeypatch.setattr(Predictor, "forward", forward)
        return program

    monkeypatch.setattr(torch.export, "export", biased)
    with pytest.raises(ValueError, match=r"logits differ from the network's by 1"):
        export_model(model, tmp_path / "model.pt2")
    assert not list(tmp_path.iterdir())
