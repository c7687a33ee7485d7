import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.estimators.__main__ import main
from benchmarks.estimators.cells import plan_cells, run_cells
from benchmarks.estimators.sets import SETS, DomainRows, StudySet, draw_rows, read_set
from benchmarks.estimators.tables import markdown_tables, method_scores

pytestmark = pytest.mark.slow

DATA = os.environ.get("MOMENTALIGN_DATA")


def small(root: Path, *, regression: bool = False) -> DomainRows:
    rng = np.random.default_rng(0)
    X, domains = rng.normal(size=(120, 3)), np.repeat(["a", "b", "c"], 40)
    noisy = X[:, 0] + 0.5 * rng.normal(size=120)
    return DomainRows(X, noisy if regression else (noisy > 0).astype(np.int64), domains)


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = lambda: make_pipeline(StandardScaler())  # noqa: E731
    monkeypatch.setitem(SETS, "heart", StudySet("Small", small, prepare))
    regression = StudySet("Numbers", lambda root: small(root, regression=True), prepare, regression=True)
    monkeypatch.setitem(SETS, "beijing", regression)


@pytest.mark.usefixtures("sets")
def test_finished_cells_are_kept_and_the_others_run(tmp_path: Path) -> None:
    out, lines = tmp_path / "estimators.json", []
    cells = plan_cells(["heart", "beijing"], [0], tmp_path)
    assert [str(cell) for cell in cells] == [f"{name}/0/{domain}" for name in ("beijing", "heart") for domain in "abc"]
    results = run_cells(cells, tmp_path, out, jobs=1, progress=lines.append)
    assert len(lines) == 1 + 6
    assert results["heart/0/a"]["train_rows"] == 64
    assert results["heart/0/a"]["test_rows"] == 40
    assert results["heart/0/a"]["methods"]["LogisticRegression"]["accuracy"] > 0.6
    assert results["beijing/0/a"]["methods"]["CV"]["r2"] > 0.5
    content = json.loads(out.read_text())
    del content["cells"]["heart/0/b"]
    content["cells"]["heart/0/a"]["seconds"] = -1.0
    out.write_text(json.dumps(content))
    lines.clear()
    again = run_cells(cells, tmp_path, out, jobs=1, progress=lines.append)
    assert len(lines) == 1 + 1
    assert again["heart/0/a"]["seconds"] == -1.0  # not run again
    assert again["heart/0/b"]["methods"] == results["heart/0/b"]["methods"]
    text = "\n".join(markdown_tables(again))
    assert "### Small" in text
    assert "### Numbers" in text
    assert "RMSE" in text


@pytest.mark.usefixtures("sets")
def test_cells_of_other_defaults_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "estimators.json"
    out.write_text(json.dumps({"estimators": {"momentalign": "0"}, "cells": {}}))
    with pytest.raises(ValueError, match="other defaults or of another version"):
        run_cells(plan_cells(["heart"], [0], tmp_path), tmp_path, out, jobs=1, progress=print)


def test_tables_are_means_over_domains_and_worst_domains_over_seeds() -> None:
    accuracies = {"0": (0.5, 0.9), "1": (0.7, 0.7)}
    cells = {
        f"heart/{seed}/{domain}": {
            "methods": {"LogisticRegression": {"accuracy": value}, "CV": {"accuracy": value + 0.1}}
        }
        for seed, values in accuracies.items()
        for domain, value in zip("ab", values, strict=True)
    }
    for cell in cells.values():
        cell["methods"]["CV"] |= {"gradient_weight": 1.0, "hessian_weight": 0.0, "l2": 0.1, "balanced": True}
    cells["heart/2/a"] = cells["heart/0/a"]  # a seed without all domains does not count
    assert method_scores(cells, "heart", "accuracy")[0].scores.tolist() == [[0.5, 0.9], [0.7, 0.7]]
    text = "\n".join(markdown_tables(cells))
    assert "| LogisticRegression | 70.0 ± 0.0 | 60.0 ± 10.0 | +0.0 ± 0.0 | 60.0 | 80.0 |" in text
    assert "| CV | 80.0 ± 0.0 | 70.0 ± 10.0 | +10.0 ± 0.0 | 70.0 | 90.0 |" in text
    assert "gradient 1, Hessian 0 at L2 0.1 5×" in text


def test_a_seed_draws_the_same_rows_whichever_domain_is_left_out() -> None:
    domains = np.repeat(["a", "b"], [50, 10])
    train, test = draw_rows("heart", domains, 3)
    assert (train[:50].sum(), train[50:].sum(), test.sum()) == (40, 8, 60)
    again, other = draw_rows("heart", domains, 3)[0], draw_rows("heart", domains, 4)[0]
    assert (train == again).all()
    assert (train != other).any()


@pytest.mark.skipif(DATA is None, reason="MOMENTALIGN_DATA does not name a folder with the sets")
@pytest.mark.parametrize(
    ("name", "rows", "features", "domains"),
    [("heart", 920, 13, 4), ("amazon", 8000, 384, 4), ("pacs", 9991, 1280, 4), ("beijing", 412_029, 30, 12)],
)
def test_real_sets_are_read(name: str, rows: int, features: int, domains: int) -> None:
    found = read_set(name, Path(str(DATA)))
    assert found.features.shape == (rows, features)
    assert len(found.targets) == rows
    assert len(np.unique(found.domains)) == domains


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--sets", "hart"], "--sets should name some of heart"), (["--data", "nowhere"], "nowhere")],
)
def test_bad_arguments_are_one_line_and_exit_code_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["estimators", *arguments])
    monkeypatch.delenv("MOMENTALIGN_DATA", raising=False)
    try:
        code = main()
    except SystemExit as stopped:  # the parser's own
        code = stopped.code
    assert code == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
