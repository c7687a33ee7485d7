"""Records in the loggers' own formats."""

import csv
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from momentalign.runs import Record, RunConfig, read_records
from momentalign.training import run
from momentalign.training._loggers import metric_name
from tests.training.problems import cut_at, small_config, three_domains

pytestmark = pytest.mark.slow


def expected(folder: Path) -> dict[tuple[int, str], float]:
    return {(r["step"], metric_name(r)): r["value"] for r in read_records(folder) if r["value"] is not None}


def in_csv(folder: Path) -> dict[tuple[int, str], float]:
    with (folder / "csv" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len({row["step"] for row in rows}) == len(rows)
    return {
        (int(row["step"]), key): float(value) for row in rows for key, value in row.items() if key != "step" and value
    }


def in_tensorboard(folder: Path) -> dict[tuple[int, str], float]:
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    tags = [tag for tag in events.Tags()["scalars"] if tag != "hp_metric"]
    return {(event.step, tag): event.value for tag in tags for event in events.Scalars(tag)}


def config() -> RunConfig:
    return small_config(three_domains(), steps=10)


def test_all_records_are_logged(tmp_path: Path) -> None:
    run(config(), tmp_path / "run", data=three_domains(), loggers=("csv", "tensorboard"))
    wanted = expected(tmp_path / "run")
    assert len({step for step, _ in wanted}) == 4
    assert in_csv(tmp_path / "run") == pytest.approx(wanted)
    assert in_tensorboard(tmp_path / "run") == pytest.approx(wanted, rel=1e-5)
    assert "batch_size: 8" in (tmp_path / "run" / "csv" / "hparams.yaml").read_text()


def test_a_resumed_run_has_one_complete_log(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with cut_at(5):
        run(config(), folder, data=three_domains(), loggers=("csv",), checkpoint_every=1)
    assert {step for step, _ in in_csv(folder)} == {0, 4}
    run(config(), folder, data=three_domains(), loggers=("csv",))
    assert in_csv(folder) == pytest.approx(expected(folder))


def test_names_are_what_every_logger_takes() -> None:
    record: Record = {"step": 0, "domain": "+90%", "split": "out", "metric": "accuracy", "value": 0.5}
    assert metric_name(record) == "accuracy/plus 90 percent/out"
    assert metric_name({**record, "domain": None, "split": None}) == "step/accuracy"
    assert metric_name({**record, "domain": "Genève"}) != metric_name({**record, "domain": "Genéve"})
    assert metric_name({**record, "domain": None, "group": "a, b"}) == "accuracy/all/out/au2c b"


def test_unknown_or_missing_loggers_are_named_before_work_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"'logger' should be one of 'csv', .*'wandb'"):
        run(config(), tmp_path / "run", data=three_domains(), loggers=("neptune",))
    with pytest.raises(ValueError, match="'loggers' need a folder"):
        run(config(), None, data=three_domains(), loggers=("csv",))
    monkeypatch.setattr("momentalign.training._loggers.find_spec", lambda name: None)
    with pytest.raises(
        ModuleNotFoundError, match=r"'wandb' needs wandb, which is not installed. Use pip install wandb"
    ):
        run(config(), tmp_path / "run", data=three_domains(), loggers=("wandb",))
    assert not list(tmp_path.iterdir())
