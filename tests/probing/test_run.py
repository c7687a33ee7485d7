import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from momentalign.probing import make_probe_config, run_probe
from momentalign.runs import read_run
from momentalign.selection import read_runs
from momentalign.tables import TableModel
from tests.probing.problems import spurious_data, write_csv

pytestmark = pytest.mark.slow

DATA = spurious_data(160, 80, features=4)
ACCURACIES = {"accuracy", "worst_group_accuracy", "group_accuracy"}
MEASURES = {"worst_class_accuracy", "weighted_accuracy", "balanced_accuracy", "worst_group_f1", "auroc"}
MEASURES |= {"calibration_error"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_csv(DATA, tmp_path / "features.csv")


def test_a_folder_is_that_of_any_run(path: Path, tmp_path: Path) -> None:
    config = make_probe_config(path, "cma", hparams_seed=3, trial=1)
    last = run_probe(config, tmp_path / "run")
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["status"] == "finished"
    named = [about["config"][name] for name in ("setting", "dataset", "algorithm")]
    assert named == ["probe", str(path.resolve()), "cma"]
    assert (about["domains"], about["classes"]) == (["land", "water"], ["0", "1"])
    assert [sum(about["group_rows"][split].values()) for split in ("train", "val", "test")] == [160, 80, 80]
    sweep = read_runs(tmp_path / "run")
    assert not sweep.problems
    records = sweep.records
    end = records[records["step"] == records["step"].max()]
    assert end["value"].tolist() == [record["value"] for record in last]
    assert set(records["metric"]) == {"loss", "gradient", "hessian"} | ACCURACIES | MEASURES
    measured = records[records["metric"].isin(MEASURES)]
    assert set(measured["step"]) == {records["step"].max()}
    assert len(measured) == 3 * len(MEASURES)
    assert set(records["split"].dropna()) == {"train", "val", "test"}
    losses = records[records["metric"] == "loss"]
    assert losses["step"].tolist() == list(range(len(losses)))
    groups = end[(end["metric"] == "group_accuracy") & (end["split"] == "test")]
    worst = end[(end["metric"] == "worst_group_accuracy") & (end["split"] == "test")]["value"].item()
    assert groups["value"].min() == worst
    by_domain = end[(end["metric"] == "accuracy") & (end["split"] == "test") & end["domain"].notna()]
    assert by_domain["domain"].tolist() == ["land", "water"]


def test_the_kept_head_gives_the_recorded_accuracy(path: Path, tmp_path: Path) -> None:
    last = run_probe(make_probe_config(path, "hutchinson"), tmp_path / "run")
    model = TableModel.load(tmp_path / "run")
    frame = pd.read_csv(path)
    test = frame[frame["split"] == "test"]
    logits, _ = model.logits(test)
    accuracy = (model.probabilities(logits).argmax(1) == test["y"]).mean()
    recorded = next(r for r in last if r["metric"] == "accuracy" and r["split"] == "test" and r["domain"] is None)
    assert accuracy == pytest.approx(recorded["value"])


def test_penalties_fall_once_they_count(tmp_path: Path) -> None:
    """The picture of the paper: after annealing the Hessians' spread drops."""
    hparams = {"epochs": 400, "lr": 0.05, "anneal_steps": 200, "gradient_weight": 0.0, "hessian_weight": 1e5}
    config = make_probe_config("spurious", "cma", solver="sgd", data=DATA, hparams=hparams)
    assert config.steps == 400
    assert config.record_every == 4
    run_probe(config, tmp_path / "run", data=DATA, save=False)
    assert not (tmp_path / "run" / "model.safetensors").exists()
    records = read_runs(tmp_path / "run").records
    hessian = records[records["metric"] == "hessian"].set_index("step")["value"]
    assert hessian.index.tolist() == [*range(0, 400, 4), 399]
    assert hessian[196] > 0.9 * hessian[180]  # slow without the penalty
    assert hessian[220] < 0.8 * hessian[196]
    assert hessian[399] < hessian[220]


def test_a_finished_run_is_read_and_another_configuration_refused(path: Path, tmp_path: Path) -> None:
    config = make_probe_config(path, "erm")
    first = run_probe(config, tmp_path / "run")
    before = (tmp_path / "run" / "run.json").read_bytes()  # with the time at which it finished
    assert run_probe(config, tmp_path / "run") == first
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    with pytest.raises(ValueError, match="another configuration: trial was 0 and is 1"):
        run_probe(make_probe_config(path, "erm", trial=1), tmp_path / "run")
    assert run_probe(config, None) == first


def test_an_error_is_written_down_and_the_run_can_be_made_again(path: Path, tmp_path: Path) -> None:
    wild = make_probe_config(path, "vrex", solver="sgd", hparams={"lr": 1e300, "weight": 1e4})
    with pytest.raises(ValueError, match="loss is not finite at step"):
        run_probe(wild, tmp_path / "run")
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["status"] == "failed"
    assert "smaller weight or lr" in about["error"]
    # A run that a crash left half-done begins again.
    config = make_probe_config(path, "groupdro", trial=2)
    expected = run_probe(config, tmp_path / "other")
    (tmp_path / "half").mkdir()
    about = read_run(tmp_path / "other") | {"status": "running"}
    (tmp_path / "half" / "run.json").write_text(json.dumps(about))
    (tmp_path / "half" / "records.jsonl").write_text('{"step": 0, "metr')
    assert run_probe(config, tmp_path / "half") == expected
    assert (tmp_path / "half" / "records.jsonl").read_text() == (tmp_path / "other" / "records.jsonl").read_text()


def test_configurations_of_another_kind_are_refused(path: Path) -> None:
    config = make_probe_config(path, "erm")
    with pytest.raises(ValueError, match="takes a configuration of make_probe_config"):
        run_probe(replace(config, setting="finetune"), None)


@pytest.mark.parametrize(
    ("method", "terms"),
    [
        ("erm", {"gradient", "hessian"}),
        ("irm", {"gradient", "hessian", "gradient_norm"}),
        ("dfr", set()),  # a head with an intercept
    ],
)
def test_terms_of_a_method_are_recorded_beside_the_spreads(method: str, terms: set[str]) -> None:
    few = {"tol": 0.5} if method != "dfr" else {}
    last = run_probe(make_probe_config("spurious", method, data=DATA, hparams=few), None, data=DATA)
    found = {record["metric"] for record in last if record["split"] is None}
    assert found - {"loss"} == terms
    assert {record["step"] for record in last} == {last[0]["step"]}


def test_progress_counts_steps_from_one() -> None:
    calls: list[tuple[int, int]] = []
    hparams = {"epochs": 3, "batch_size": 80}
    config = make_probe_config("spurious", "erm", solver="sgd", data=DATA, hparams=hparams, record_every=4)
    last = run_probe(config, None, data=DATA, progress=lambda done, most: calls.append((done, most)))
    assert calls == [(step, 6) for step in range(1, 7)]
    assert {record["step"] for record in last} == {5}


def test_a_solver_that_takes_more_passes_than_planned_moves_its_end() -> None:
    calls: list[tuple[int, int]] = []
    config = make_probe_config("spurious", "vrex", data=DATA, hparams={"weight": 1e4})
    run_probe(replace(config, steps=3), None, data=DATA, progress=lambda done, most: calls.append((done, most)))
    assert [done for done, _ in calls] == list(range(1, len(calls) + 1))
    assert all(most == max(3, done) for done, most in calls)
