import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.estimators.__main__ import main
from benchmarks.estimators.cells import CellResults, draw_rows, outer_folds, plan_cells, run_cells
from benchmarks.estimators.methods import BASELINES
from benchmarks.estimators.page import stayed_sets, worst_counts
from benchmarks.estimators.sets import PARTS, SETS, DomainRows, StudySet, part_of, prepare, read_set
from benchmarks.estimators.speed import Shape, speed_rows
from benchmarks.estimators.tables import markdown_tables, summarize
from tests.benchmarks.commands import assert_refused

pytestmark = pytest.mark.slow

DATA = os.environ.get("MOMENTALIGN_DATA")


def small(root: Path, *, regression: bool = False) -> DomainRows:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"number": rng.normal(size=120), "text": rng.choice(["red", "blue"], 120).astype(object)})
    frame.loc[::7, "number"] = np.nan
    noisy = frame["number"].fillna(0).to_numpy() + 0.5 * rng.normal(size=120)
    return DomainRows(frame, noisy if regression else np.where(noisy > 0, "b", "a"), np.repeat(["x", "y", "z"], 40))


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETS, "heart-disease", StudySet("Small", small))
    regression = StudySet("Numbers", lambda root: small(root, regression=True), regression=True)
    monkeypatch.setitem(SETS, "developer-salary", regression)
    read_set.cache_clear()


@pytest.mark.usefixtures("sets")
def test_finished_cells_are_kept_and_the_others_run(tmp_path: Path) -> None:
    out, lines = tmp_path / "estimators.json", list[str]()
    cells = plan_cells(["heart-disease", "developer-salary"], [0], tmp_path)
    assert [str(cell) for cell in cells] == [
        f"{name}/0/{fold}" for name in ("heart-disease", "developer-salary") for fold in range(3)
    ]
    results = run_cells(cells, tmp_path, out, jobs=1, progress=lines.append)
    assert len(lines) == 1 + 6
    first = results["heart-disease/0/0"]
    assert (first["train_rows"], first["test_rows"], first["features"]) == (80, 40, 3)
    ours = first["methods"]["MomentAlignedClassifierCV"]
    assert min(ours["scores"]["accuracy"].values()) > 0.6
    assert (ours["chosen"], ours["stepped"]) == ("1/n", False)  # two training domains
    content = json.loads(out.read_text())
    del content["cells"]["developer-salary/0/1"]
    content["cells"]["developer-salary/0/0"]["train_rows"] = -1
    out.write_text(json.dumps(content))
    lines.clear()
    again = run_cells(cells, tmp_path, out, jobs=1, progress=lines.append)
    assert len(lines) == 1 + 1
    assert again["developer-salary/0/0"]["train_rows"] == -1  # not run again
    tables = markdown_tables(again)
    assert list(tables) == [
        "settle-regression-all-rows",
        "confirm-classification-all-rows",
        "settle-regression-other-settings",
    ]
    assert "stayed: 3" in tables["confirm-classification-all-rows"]


@pytest.mark.usefixtures("sets")
def test_cells_of_other_defaults_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "estimators.json"
    out.write_text(json.dumps({"estimators": {"momentalign": "0"}, "cells": {}}))
    with pytest.raises(ValueError, match="other defaults or of another version"):
        run_cells(plan_cells(["heart-disease"], [0], tmp_path), tmp_path, out, jobs=1, progress=print)


def test_tables_give_the_mean_and_the_worst_domain_against_the_better_baseline() -> None:
    def cell(first: float, second: float) -> dict[str, object]:
        def result(gain: float, seconds: float) -> dict[str, object]:
            scores = {"one": first + gain, "two": second + gain}
            return {"scores": {"accuracy": scores, "balanced accuracy": scores}, "seconds": seconds}

        ours = result(0.1, 2.0) | {"chosen": "10/n", "stepped": True}
        names = ("LogisticRegression", "LogisticRegressionCV", "MomentAlignedClassifierCV")
        return {"methods": dict(zip(names, (result(0.0, 0.1), result(0.02, 1.0), ours), strict=True))}

    cells: CellResults = {"heart-disease/0/0": cell(0.5, 0.7), "heart-disease/1/0": cell(0.5, 0.7)}
    cells["heart-disease/2/0"] = cell(0.6, 0.6)
    summary = summarize(cells, "heart-disease", "accuracy", small=True)["LogisticRegression"]
    assert np.allclose(summary.mean, 0.6)
    assert np.allclose(summary.worst, [0.5, 0.6])
    text = "\n".join(markdown_tables(cells).values())
    all_rows = "| heart-disease | 60.0 / 50.0 | 62.0 / 52.0 | 70.0 / 60.0 | +8.00 / +8.0 | +8.0 | 10/n: 1 | 2.0 |"
    assert all_rows in text
    assert "| heart-disease | 60.0 ± 0.0 / 55.0 ± 5.0 |" in text


def test_halves_alternate_and_are_of_both_kinds() -> None:
    kinds = {(part_of(name), SETS[name].regression) for name in SETS}
    assert kinds == {(part, regression) for part in PARTS for regression in (False, True)}
    assert (part_of("amazon-reviews"), part_of("cannabis-country"), part_of("auto-mpg")) == (
        "settle",
        "confirm",
        "settle",
    )


def test_draws_and_folds_keep_domains_whole() -> None:
    domains = np.repeat([f"user {index:02}" for index in range(12)], [300] + [50] * 11)
    drawn = draw_rows(domains, 3)
    assert (drawn[:300].sum(), drawn[300:].sum()) == (100, 550)
    assert (drawn == draw_rows(domains, 3)).all()
    assert draw_rows(domains, 0).all()
    folds = outer_folds(domains)
    assert len(folds) == 10
    assert all(not set(domains[train]) & set(domains[test]) for train, test in folds)
    assert sorted(index for _, test in folds for index in test) == list(range(len(domains)))


def test_categories_are_0_and_1_and_numbers_standardised() -> None:
    frame = small(Path()).features
    matrix = prepare("heart-disease").fit(frame).transform(frame)
    assert np.allclose(matrix[:, 0].mean(), 0)
    assert np.allclose(matrix[:, 0].std(), 1)
    assert set(np.unique(matrix[:, 1:])) == {0.0, 1.0}


@pytest.mark.skipif(DATA is None, reason="MOMENTALIGN_DATA does not name a folder with the sets")
@pytest.mark.parametrize(
    ("name", "rows", "columns", "domains"),
    [
        ("heart-disease", 920, 13, 4),
        ("pacs", 9991, 1280, 4),
        ("beijing-air", 12_000, 15, 12),
        ("diabetes-readmission", 9313, 29, 6),
    ],
)
def test_real_sets_are_read(name: str, rows: int, columns: int, domains: int) -> None:
    found = read_set(name, Path(str(DATA)))
    assert found.features.shape == (rows, columns)
    assert len(found.targets) == rows
    assert len(np.unique(found.domains)) == domains


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--sets", "hart"], "--sets: should name some of amazon-reviews"), (["--data", "nowhere"], "nowhere")],
)
def test_bad_arguments_are_one_line_and_exit_code_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert_refused(main, arguments, message, tmp_path, monkeypatch, capsys)


def test_worst_domains_are_counted_by_score_and_rival(monkeypatch: pytest.MonkeyPatch) -> None:
    # A copy: deleted items are restored at the end of the dictionary, and the order of the sets is that of the page.
    some = {name: SETS[name] for name in ("pacs", "heart-disease", "developer-salary")}
    monkeypatch.setattr("benchmarks.estimators.page.SETS", some)

    def methods(name: str, *values: float) -> dict[str, dict[str, object]]:
        scores = ("RMSE",) if name == "developer-salary" else ("accuracy", "balanced accuracy")
        names = ("RidgeCV", "MomentAlignedRegressorCV") if scores == ("RMSE",) else BASELINES[False]
        names = names if scores == ("RMSE",) else (*names, "MomentAlignedClassifierCV")
        return {
            method: {"scores": {score: {"x": value} for score in scores}, "stepped": False}
            for method, value in zip(names, values, strict=True)
        }

    cells = {
        "pacs/0/0": {"methods": methods("pacs", 0.5, 0.6, 0.7)},
        "heart-disease/0/0": {"methods": methods("heart-disease", 0.5, 0.6, 0.5)},
        "developer-salary/0/0": {"methods": methods("developer-salary", 2.0, 2.1)},
    }
    assert worst_counts(cells) == {
        ("accuracy", "LogisticRegression"): (1, 1, 0),
        ("accuracy", "LogisticRegressionCV"): (1, 0, 1),
        ("balanced accuracy", "LogisticRegression"): (1, 1, 0),
        ("balanced accuracy", "LogisticRegressionCV"): (1, 0, 1),
        ("RMSE", "RidgeCV"): (0, 0, 1),
    }
    assert stayed_sets(cells) == ["pacs"]


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
def test_searches_are_timed_on_the_same_folds() -> None:
    rows = list(speed_rows((Shape(4, 60, 3, 2), Shape(4, 60, 3))))
    assert [row.size.split(", ")[2] for row in rows] == ["2 classes"] * 3 + ["regression"] * 3
    assert [row.name for row in rows[:3]] == ["scikit-learn's search", "ours", "one fit"]
    assert rows[0].time_ratio == 1
