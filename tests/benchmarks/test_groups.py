import json
import os
from pathlib import Path

import altair as alt
import numpy as np
import pandas as pd
import pytest

from benchmarks.groups.__main__ import main
from benchmarks.groups.cells import plan_cells, prepared, run_cells
from benchmarks.groups.methods import METHODS, FitArrays, fit_settings
from benchmarks.groups.page import figure_rows, make_page
from benchmarks.groups.sets import SETS, SETTLE, SHARE, GroupRows, GroupStudySet, read_set, split_rows
from benchmarks.groups.study import RULES, SHIPPED, GroupStudy, within_one_error
from benchmarks.records import Line
from tests.benchmarks.commands import assert_refused

pytestmark = pytest.mark.slow

DATA = os.environ.get("MOMENTALIGN_DATA")


def small(root: Path) -> GroupRows:
    """Two classes, two attributes that go with them in 9 of 10 rows."""
    rng = np.random.default_rng(0)
    classes, agree = np.arange(400) % 2, rng.random(400) < 0.9
    places = np.where(agree, classes, 1 - classes)
    frame = pd.DataFrame(rng.normal(size=(400, 2)) + np.column_stack([classes, 3 * places]), columns=["x", "y"])
    return GroupRows(frame, np.array(["no", "yes"])[classes], np.array(["land", "water"])[places])


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETS, "german-credit", GroupStudySet("Small", small))
    read_set.cache_clear()
    prepared.cache_clear()


def line(name: str, seed: int, method: str, *results: tuple[list[int], float, float]) -> Line:
    """A record of four groups of 100 rows: rows right on validation rows, test worst group and average of settings."""
    measures = ("accuracy", "balanced_accuracy", "worst_group_f1", "auroc", "calibration_error", "low", "high")
    return {
        "set": name,
        "seed": seed,
        "method": method,
        "groups": ["a, x", "a, y", "b, x", "b, y"],
        "classes": ["a", "a", "b", "b"],
        "rows": dict.fromkeys(("train", "validation", "test"), [100] * 4),
        "features": 3,
        "results": [
            {
                "setting": {},
                "seconds": 1.0,
                "right": {"train": right[::-1], "validation": right, "test": right},
                "test": dict.fromkeys(measures, 0.5) | {"worst_group_accuracy": worst, "weighted_accuracy": average},
            }
            for right, worst, average in results
        ],
    }


@pytest.mark.usefixtures("sets")
def test_finished_cells_are_kept_and_the_others_run(tmp_path: Path) -> None:
    out, messages = tmp_path / "groups.jsonl", list[str]()
    cells = plan_cells(["german-credit"], [0, 1], ["erm", "balanced"])
    lines = run_cells(cells, tmp_path, out, messages.append)
    assert len(messages) == 1 + 4
    first = lines[0]
    assert first["groups"] == ["no, land", "no, water", "yes, land", "yes, water"]
    assert [sum(first["rows"][split]) for split in ("train", "validation", "test")] == [200, 80, 120]
    assert len(first["results"]) == len(METHODS["erm"].settings)
    measures = first["results"][0]["test"]
    right, rows = np.array(first["results"][0]["right"]["test"]), np.array(first["rows"]["test"])
    assert measures["worst_group_accuracy"] == pytest.approx((right / rows).min())
    assert measures["accuracy"] == pytest.approx(right.sum() / rows.sum())
    assert lines[1]["results"][0]["test"]["worst_group_accuracy"] > measures["worst_group_accuracy"]
    out.write_text("".join(json.dumps(each | {"features": -1}) + "\n" for each in lines[:3]))
    messages.clear()
    again = run_cells(cells, tmp_path, out, messages.append)
    assert len(messages) == 1 + 1
    assert [each["features"] for each in again] == [-1, -1, -1, 2]


def test_methods_that_need_labels_only_are_given_no_groups() -> None:
    rows = small(Path())
    arrays = FitArrays(rows.features.to_numpy(), rows.targets, rows.groups, rows.attributes)
    _, model = next(fit_settings("erm", arrays))
    assert not hasattr(model, "groups_")
    _, model = next(fit_settings("subsampled", arrays))
    assert len(model.groups_) == 4


def test_rules_choose_by_the_rows_they_name() -> None:
    settings = (
        ([90, 10, 90, 90], 0.1, 0.8),  # as shipped
        ([60, 60, 60, 70], 0.6, 0.6),  # the best worst group
        ([80, 50, 90, 60], 0.5, 0.7),  # the best worst class
        ([99, 12, 99, 99], 0.2, 0.9),  # the best average
    )
    study = GroupStudy([line("german-credit", seed, "erm", *settings) for seed in (0, 1)])
    worst = {rule: study.scores("german-credit", "erm", rule).tolist() for rule in (SHIPPED, *RULES)}
    assert worst == {
        SHIPPED: [10, 10],
        "worst-group": [60, 60],
        "train-groups": [60, 60],
        "worst-class": [50, 50],
        "average": [20, 20],
    }


def test_tables_name_the_best_and_those_within_one_standard_error() -> None:
    near = {"a": np.array([50.0, 54.0]), "b": np.array([51.0, 50.0]), "c": np.array([40.0, 40.0])}
    assert within_one_error(near) == ["a", "b"]
    lines = [
        line(name, seed, method, ([50, 50, 50, 50], worst + 0.02 * seed, 0.8))
        for name in ("german-credit", "hmda-denial")
        for method, worst in (("erm", 0.2), ("balanced", 0.49), ("subsampled", 0.5), ("cma", 0.48))
        for seed in (0, 1)
    ]
    page = make_page({"groups": lines})
    assert "| hmda-denial | 21.0 / 80.0 | 51.0 / 80.0 | +30.0 ± 0.0 | 0.0 ± 0.0 |" in page.blocks["gains-settle"]
    assert "german-credit" in page.blocks["gains-confirm"]
    assert "| `subsampled` 51.0 ± 1.0 | `balanced` | `erm` 21.0 ± 1.0 |" in page.blocks["winners"]
    assert "| german-credit | −1.0 ± 0.0 | −2.0 ± 0.0 |" in page.blocks["alignment"]
    assert (page.blocks["subsampled-gain"], page.blocks["labels-loss"]) == ("30.0 to 30.0", "30.0 to 30.0")
    assert page.blocks["alignment-tables"] == "−1.0 to −1.0"
    assert page.blocks["alignment-mean"] == "−1.0 ± 0.0"
    rows = figure_rows(GroupStudy(lines), "german-credit")
    assert rows[0] | {"average": 80.0, "worst": 21.0, "worst_low": 20.0, "worst_high": 22.0} == rows[0]
    drawn = page.figures["german-credit"].draw(alt.Data(values=rows))
    assert len(drawn.to_dict()["hconcat"]) == 2


def test_splits_are_drawn_in_every_group_and_thinned_to_the_share() -> None:
    classes, styles = np.repeat(["dog", "elephant"], 800), np.tile(np.repeat(["photo", "sketch"], [200, 600]), 2)
    rows = GroupRows(None, classes, styles)
    plain = split_rows("german-credit", rows, 0)
    assert [len(part) for part in plain.values()] == [800, 320, 480]
    assert sorted(np.concatenate(list(plain.values()))) == list(range(1600))
    assert np.unique(rows.groups[plain["validation"]], return_counts=True)[1].tolist() == [40, 120, 40, 120]
    train = split_rows("pacs-dog-elephant", rows, 0)["train"]
    for label, style in (("dog", "photo"), ("elephant", "sketch")):
        of_class = train[classes[train] == label]
        assert (styles[of_class] == style).mean() == pytest.approx(SHARE, abs=0.01)


@pytest.mark.skipif(DATA is None, reason="MOMENTALIGN_DATA does not name a folder with the sets")
def test_real_sets_have_their_groups() -> None:
    sizes = {name: len(np.unique(read_set(name, Path(str(DATA))).groups)) for name in SETS}
    assert list(sizes.values()) == [6, 4, 4, 10, 4, 4, 4]
    assert set(SETTLE) < set(SETS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sets", "law"], "--sets should name some of diabetes-readmission"),
        (["--methods", "dro"], "--methods should name some of erm"),
        (["--data", "nowhere"], "nowhere"),
        ([], "no data folder"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    read_set.cache_clear()
    prepared.cache_clear()
    assert_refused(main, arguments, message, tmp_path, monkeypatch, capsys)
