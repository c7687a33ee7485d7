"""Models from a folder to the hub, which here is a server on this machine, and back."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pandas as pd
import pytest
import torch
from huggingface_hub import constants, file_download
from typer.testing import CliRunner

import momentalign
from momentalign.cli import app
from momentalign.hub import files_to_upload, from_pretrained, model_card, push_to_hub
from momentalign.tables import Column, TableEncoder, TableModel
from momentalign.training import Predictor, make_config, run
from tests.encoders.hub import Hub
from tests.encoders.models import save_model, write_images

pytestmark = pytest.mark.slow

RUN_FILES = ["README.md", "model.safetensors", "records.jsonl", "run.json"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "run"
    options = {"hparams": {"batch_size": 8}, "average": "ema", "keep": "training-domain"}
    config = make_config("colored-digits", "cma", test_domains=["-90%"], steps=2, **options)
    run(config, folder)
    return folder


@pytest.fixture
def finished(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def probe(tmp_path: Path) -> Path:
    columns = (Column("age", 1.0, None), Column("a|b", 0.0, None))
    encoder = TableEncoder(columns, np.zeros(2), np.ones(2), None)
    about = {
        "target": "ill",
        "domain": "hospital",
        "task": "classification",
        "source": {"test domain": "Bern"},
        "chosen": {"l2": 0.5},
        "reason": "It was best.",
    }
    scores = "kind,name,rows,model,metric,value\n" + "".join(
        f"domain,Bern,40,{model},accuracy,{value}\n" for model, value in (("plain", 0.51234567), ("chosen model", 0.75))
    )
    model = TableModel(encoder, np.array([[1.0, -1.0]]), np.zeros(1), ("no", "yes"), about)
    model.save(tmp_path / "probe", {"scores.csv": scores})
    return tmp_path / "probe"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with Hub({}, {}, tmp_path / "uploads") as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.address)
        template = server.address + "/{repo_id}/resolve/{revision}/{filename}"
        for module in (constants, file_download):  # old releases of the library keep a copy
            monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
        yield server


def uploaded(tmp_path: Path, name: str) -> list[str]:
    folder = tmp_path / "uploads" / name
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())


def front(card: str) -> dict[str, Any]:
    return dict(huggingface_hub.ModelCard(card).data.to_dict())


def test_a_run_goes_to_the_hub_and_comes_back(hub: Hub, finished: Path, tmp_path: Path) -> None:
    address = push_to_hub(finished, "ada/digits", licence="mit", token="hf_x")
    assert address.startswith(f"{hub.address}/ada/digits/commit/")
    assert uploaded(tmp_path, "ada/digits") == RUN_FILES
    (tmp_path / "uploads/ada/digits/modeling.py").write_text("raise SystemExit('code was run')")
    (tmp_path / "uploads/ada/digits/pytorch_model.bin").write_bytes(b"not wanted")
    model = from_pretrained("ada/digits", cache_dir=tmp_path / "cache", token="hf_x")
    assert isinstance(model, Predictor)
    rows = torch.rand(3, 2, 8, 8)
    torch.testing.assert_close(model(rows), momentalign.load(finished)(rows))
    assert not any(name in request for request in hub.requests for name in ("modeling.py", ".bin", "README"))
    hub.stop()  # the cache does without it
    assert torch.equal(from_pretrained("ada/digits", cache_dir=tmp_path / "cache")(rows), model(rows))
    with pytest.raises(ValueError, match=r"'ada/other' is not in the local cache, and http\S+ does not respond"):
        from_pretrained("ada/other", cache_dir=tmp_path / "cache")
    with pytest.raises(ValueError, match=r"'ada/digits' cannot be uploaded: http\S+ does not respond"):
        push_to_hub(finished, "ada/digits")


def test_a_probe_replaces_a_run_in_its_repository(hub: Hub, finished: Path, probe: Path, tmp_path: Path) -> None:
    push_to_hub(finished, "ada/model", token="hf_x")
    push_to_hub(probe, "ada/model", token="hf_x", card="My own words.")
    assert uploaded(tmp_path, "ada/model") == ["README.md", "model.safetensors", "scores.csv"]
    assert (tmp_path / "uploads/ada/model/README.md").read_text() == "My own words."
    model = from_pretrained("ada/model", cache_dir=tmp_path / "cache")
    assert isinstance(model, TableModel)
    assert model.predict(pd.DataFrame({"age": [3, -3], "a|b": [0, 0]})).tolist() == ["yes", "no"]


def test_what_is_damaged_on_the_hub_is_not_loaded(hub: Hub, finished: Path, tmp_path: Path) -> None:
    push_to_hub(finished, "ada/digits", token="hf_x")
    weights = tmp_path / "uploads/ada/digits/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"model.safetensors is damaged"):
        from_pretrained("ada/digits", cache_dir=tmp_path / "cache")


def test_what_is_not_a_model_of_ours(hub: Hub, finished: Path, tmp_path: Path) -> None:
    push_to_hub(finished, "ada/digits", token="hf_x")
    (tmp_path / "uploads/ada/digits/run.json").unlink()
    with pytest.raises(ValueError, match=r"should be a model that 'momentalign probe' wrote"):
        from_pretrained("ada/digits", cache_dir=tmp_path / "cache")
    with pytest.raises(ValueError, match="The hub has no model 'ada/none' that you may read"):
        from_pretrained("ada/none", cache_dir=tmp_path / "cache")
    with pytest.raises(ValueError, match="'two words' cannot be downloaded from the hub"):
        from_pretrained("two words", cache_dir=tmp_path / "cache")


def test_the_card_of_a_run(finished: Path) -> None:
    card = model_card(finished, "ada/digits", licence="mit")
    data = front(card)
    assert (data["library_name"], data["license"]) == ("momentalign", "mit")
    assert data["tags"] == ["domain-generalization", "cma"]
    info, last = json.loads((finished / "run.json").read_text()), (finished / "records.jsonl").read_text().splitlines()
    step = info["weights"]["step"]
    records = [record for record in map(json.loads, last) if record["step"] == step]
    recorded = {
        (record["domain"], record["split"]): record["value"]
        for record in records
        if record["metric"] == "averaged_accuracy"
    }
    found = {
        (result["dataset"]["config"], result["dataset"]["split"]): result["metrics"][0]["value"]
        for result in data["model-index"][0]["results"]
    }
    assert found == {(domain, "out"): round(recorded[domain, "out"], 4) for domain in info["domains"]}
    for line in (
        "| algorithm | CMA |",
        "| training domains | +90%, +80% |",
        "| held-out domains | -90% |",
        "| held-out rows | 20% of each training domain |",
        "| classes | 5-9, 0-4 |",
        f"| -90% (not trained on) | {100 * recorded['-90%', 'in']:.1f} | {100 * recorded['-90%', 'out']:.1f} |",
    ):
        assert line in card.splitlines()
    assert f"those of step {step} of 2, averaged (ema): the best record by training-domain selection" in card
    assert f"momentalign {momentalign.__version__}, python " in card
    assert 'from_pretrained("ada/digits")' in card


def test_the_licence_is_left_to_the_user(finished: Path, probe: Path) -> None:
    assert "license" not in front(model_card(finished, "ada/digits"))
    assert "license" not in front(model_card(probe, "ada/probe"))


def test_the_card_of_a_probe(probe: Path) -> None:
    card = model_card(probe, "ada/probe")
    assert front(card)["pipeline_tag"] == "tabular-classification"
    assert front(card)["model-index"][0]["results"][0]["metrics"][0]["value"] == 0.75
    for line in (
        "| predicts | ill (classification) |",
        "| columns | age, a\\|b |",
        "| held-out domain | Bern |",
        "| Bern | 40 | 0.5123 | 0.75 |",
    ):
        assert line in card.splitlines()


def test_names_of_the_data_cannot_break_the_card(finished: Path) -> None:
    path = finished / "run.json"
    info = json.loads(path.read_text())
    odd = "a\n---\n| <b> x: [1]"
    info["domains"] = [odd if domain == "+90%" else domain for domain in info["domains"]]
    path.write_text(json.dumps(info))
    card = model_card(finished, "ada/digits")
    assert card.count("\n---\n") == 1
    assert "<b>" not in card


@pytest.mark.parametrize("encoder", ["hf:{}/vit", "hf-config:private/clip", "./private/vit?size=32", None])
def test_paths_stay_here(encoder: str | None, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    private = tmp_path / "private"
    dataset, name = str(private / "animals"), "animals"
    if encoder is None:
        dataset, name = "private/patients.csv?target=ill/well", "patients.csv?target=ill/well"
        private.mkdir()
        rows = {"age": range(40), "ill/well": [*"yn"] * 20, "domain": [*"aabb"] * 10}
        pd.DataFrame(rows).to_csv(private / "patients.csv", index=False)
    else:
        write_images(private / "animals", per_class=5)
        for model in ("vit", "clip"):
            save_model(model, private / model)
    spec = None if encoder is None else encoder.format(private)
    config = make_config(dataset, encoder=spec, steps=1, hparams={"batch_size": 2})
    run(config, tmp_path / "done", workers=0, accelerator="cpu")
    push_to_hub(tmp_path / "done", "ada/model", token="hf_x")
    assert uploaded(tmp_path, "ada/model") == RUN_FILES
    for file in RUN_FILES:
        content = (tmp_path / "uploads/ada/model" / file).read_bytes()
        assert b"private" not in content, file
        assert str(tmp_path).encode() not in content, file
    assert json.loads((tmp_path / "uploads/ada/model/run.json").read_text())["config"]["dataset"] == name
    assert isinstance(from_pretrained("ada/model", cache_dir=tmp_path / "cache"), Predictor)


def test_paths_of_the_runs_of_a_soup_stay_here(finished: Path) -> None:
    info = json.loads((finished / "run.json").read_text())
    soup = {"kind": "uniform-soup", "runs": ["/home/ada/a/0c1d"], "of": ["/home/ada/a/0c1d", "/home/ada/b/0c1d"]}
    (finished / "run.json").write_text(json.dumps(info | {"soup": soup}))
    content = files_to_upload(finished)["run.json"]
    assert isinstance(content, bytes)
    assert json.loads(content)["soup"] == {"kind": "uniform-soup", "runs": ["0c1d"], "of": ["0c1d", "0c1d"]}


def test_only_whole_models_are_uploaded(finished: Path, tmp_path: Path) -> None:
    info = json.loads((finished / "run.json").read_text())
    (finished / "run.json").write_text(json.dumps(info | {"status": "running"}))
    with pytest.raises(ValueError, match="should be a finished run, but is running"):
        push_to_hub(finished, "ada/digits")
    with pytest.raises(ValueError, match=r"run\.json does not exist"):
        push_to_hub(tmp_path, "ada/digits")


def test_the_command(hub: Hub, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    dry = CliRunner().invoke(app, ["push", str(finished), "ada/digits", "--dry-run"])
    assert (dry.exit_code, hub.requests) == (0, [])
    assert "model.safetensors: " in dry.output
    assert "| algorithm | CMA |\n" in dry.output
    done = CliRunner().invoke(app, ["push", str(finished), "ada/digits", "--licence", "mit", "--private"])
    assert done.exit_code == 0
    assert uploaded(tmp_path, "ada/digits") == RUN_FILES
    assert "from_pretrained('ada/digits')" in done.output
