import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from momentalign.cli import main
from momentalign.tables import TableProbe

pytestmark = pytest.mark.slow


def run(*arguments: object, monkeypatch: pytest.MonkeyPatch) -> int:
    """The program in this process: its exit code."""
    monkeypatch.setattr(sys, "argv", ["momentalign", "probe", *map(str, arguments)])
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 2)), columns=["a", "b"])
    frame["kind"] = rng.choice(["u", "v"], 120)
    frame.loc[3, "a"] = np.nan
    frame["y"] = np.where(frame["b"] + rng.normal(size=120) > 0, "yes", "no")
    frame["domain"] = np.repeat(["Basel", "Bern", "Zurich"], 40)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.drop(columns=["y", "domain"]).assign(kind="w").to_parquet(tmp_path / "new.parquet")
    frame[frame["domain"] != "Bern"].to_csv(tmp_path / "two.csv", index=False)
    shutil.copy(tmp_path / "t.csv", tmp_path / "wrong.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_fit_compare_keep_and_predict(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("t.csv", "--test-domain", "Bern", "--out", "runs/probe", monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    for part in (
        "t.csv: 120 rows, 3 columns, 'y' taken as 2 classes.",
        "Missing values of training rows were filled",
        "logistic regression",
        "chosen model",
        "Next: momentalign probe --model runs/probe --predict",
    ):
        assert part in said
    assert listed(Path("runs/probe")) == ["model.safetensors", "scores.csv"]
    assert run("--model", "runs/probe", "--predict", "new.parquet", "-o", "p.csv", monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "Categories of new.parquet that no training row has were ignored: kind (120)." in said
    assert "to p.csv, in the same order; --id COLUMN copies a column." in said
    found = pd.read_csv("p.csv")
    assert len(found) == 120
    assert set(found["predicted"]) == {"no", "yes"}
    assert "fitted to rows" not in said
    assert run("--model", "runs/probe", "--predict", "t.csv", "-o", "p.csv", monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "The model was fitted to rows of this file: runs/probe/scores.csv has scores of held-out rows." in said


def test_another_model_is_only_replaced_on_demand(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("two.csv", monkeypatch=monkeypatch) == 0
    assert run("two.csv", monkeypatch=monkeypatch) == 0  # the same command
    Path("runs/probe/notes.txt").write_text("mine")
    before = {path: path.read_bytes() for path in Path("runs/probe").iterdir()}
    capsys.readouterr()
    assert run("two.csv", "--seed", "1", monkeypatch=monkeypatch) == 2
    assert "runs/probe holds a model with another seed. Name another folder with --out, or give --overwrite." in (
        capsys.readouterr().err
    )
    assert run("t.csv", "--test-domain", "Bern", "--dry-run", monkeypatch=monkeypatch) == 2
    assert "runs/probe holds a model with another table and test domain." in capsys.readouterr().err
    assert {path: path.read_bytes() for path in Path("runs/probe").iterdir()} == before
    assert run("two.csv", "--seed", "1", "--overwrite", monkeypatch=monkeypatch) == 0
    assert listed(Path("runs/probe")) == ["model.safetensors", "notes.txt", "scores.csv"]
    assert Path("runs/probe/model.safetensors").read_bytes() != before[Path("runs/probe/model.safetensors")]


def test_a_killed_probe_goes_on_in_its_own_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("two.csv", "-o", "model", monkeypatch=monkeypatch) == 0
    whole = {path.name: path.read_bytes() for path in Path("model").iterdir()}
    Path("model/model.safetensors").rename("model/.model.safetensors.0123456789abcdef.tmp")
    Path("model/scores.csv").unlink()
    assert run("two.csv", "-o", "model", monkeypatch=monkeypatch) == 0
    assert whole.items() <= {path.name: path.read_bytes() for path in Path("model").iterdir()}.items()


def test_measures_over_groups_are_printed_for_both_models(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.read_csv("two.csv")
    frame["class at site"] = frame["y"] + " at " + frame["domain"]
    frame.to_csv("grouped.csv", index=False)
    assert run("grouped.csv", "--group", "class at site", monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    measures = said[said.index("Measures over groups") :]
    for label in ("worst group", "95% interval", "weighted average", "balanced accuracy", "AUROC", "calibration error"):
        assert label in measures
    assert re.search(r"yes at Zurich +│ +\d+ │ +\d+\.\d │ +\d+\.\d │", measures)
    saved = pd.read_csv("runs/probe/scores.csv")
    assert set(saved.loc[saved["kind"] == "groups", "metric"]) > {"weighted_accuracy", "worst_group_low", "auroc"}


def test_dry_runs_write_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = listed(folder)
    assert run("t.csv", "--dry-run", monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "4 models to fit" in said
    assert re.search(r"Estimated time: [\d.]+ m?s\.", said)
    assert listed(folder) == before


def test_an_interruption_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TableProbe, "run", interrupted)
    before = listed(folder)
    assert run("t.csv", monkeypatch=monkeypatch) == 130
    assert "Interrupted. Nothing was written." in capsys.readouterr().out
    assert listed(folder) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["two.csv", "--test-domain", "Zurich"],
            "Training rows should be of at least two domains, but all are of 'Basel'",
        ),
        (["t.csv", "--task", "regression"], "should hold numbers, but 'y' holds"),
        (["t.csv", "--target", "z"], "t.csv should have a column 'z' (target), but has none"),
        (["t.csv", "--domain", "domains"], "Did you mean 'domain'?"),
        (["t.csv", "--group", "kinds"], "Did you mean 'kind'?"),
        (["t.csv", "--split", "kind"], "'--split' should be a column of train, val and test"),
        (["t.csv", "--test-domain", "Zürich"], "Did you mean 'Zurich'?"),
        (["wrong.parquet"], "wrong.parquet could not be read"),
        (["gone.csv"], "gone.csv does not exist"),
        (["t.csv", "--domain", "a"], "but has 119 different values in 119 rows. Name another column with --domain."),
        (["t.csv", "--out", "t.csv"], "'--out' should name a folder, but t.csv is a file"),
        (["t.csv", "--out", "."], "contains files that 'momentalign probe' did not write"),
        (["t.csv", "--task", "ranking"], "'--task' should be one of"),
        (["t.csv", "--components", "0"], "'--components' should be at least 1"),
        (["t.csv", "--seed", "-1"], "'--seed' should be at least 0, but is -1."),
        ([], "Name a file to fit"),
        (["--model", "runs/none", "--predict", "t.csv"], "runs/none should be a folder that 'momentalign probe' wrote"),
        (["--predict", "t.csv"], "give --model FOLDER --predict FILE"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    arguments: list[str],
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = listed(folder)
    assert run(*arguments, monkeypatch=monkeypatch) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert not captured.out
    assert listed(folder) == before
