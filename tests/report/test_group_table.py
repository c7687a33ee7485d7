"""Tables of data with groups: the worst group's interval and the other measures."""

import json

import numpy as np
import pandas as pd
import pytest

from momentalign.report import accuracy_table
from momentalign.report._group_table import _cell
from momentalign.report._published_rows import PUBLISHED_PROBING
from momentalign.report._table import ResultCell, ResultRow, TableSection
from momentalign.selection import read_runs, select
from momentalign.sklearn import worst_group_interval
from tests.runs.fake_sweep import GROUP_ROWS, write_fake_probes

COLUMNS = (
    "worst group",
    "95% interval",
    "average",
    "weighted average",
    "balanced accuracy",
    "worst class",
    "worst-group F1",
    "AUROC",
    "calibration error",
)


@pytest.fixture
def folder(tmp_path):
    write_fake_probes(tmp_path, hparams=2, trials=3, measures=True)
    return tmp_path


def only_section(folder, rule="worst-group"):
    (section,) = accuracy_table(read_runs(folder), rule).sections
    return section


def row_of(section, algorithm):
    (row,) = [row for row in section.rows if row.algorithm == algorithm and not row.published]
    return dict(zip(section.columns, row.cells, strict=True))


def test_columns_are_the_measures_that_were_recorded(folder):
    section = only_section(folder)
    assert section.columns == COLUMNS
    row = row_of(section, "cma")
    assert row["AUROC"].text == "90.0 ± 0.0"
    assert row["calibration error"].text == "5.0 ± 0.0"
    for name in ("weighted average: of the groups", "average: over all rows", "15 bins", "being a minimum"):
        assert name in " ".join(section.notes)
    published = [row for row in section.rows if row.published]
    assert {row.cells[COLUMNS.index("AUROC")].text for row in published} == {""}


def test_published_numbers_have_their_note_and_other_data_neither(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    write_fake_probes(other, dataset="mine", hparams=1, trials=1)
    for place, published in ((folder, True), (other, False)):
        section = only_section(place)
        assert any(row.published for row in section.rows) is published
        assert (PUBLISHED_PROBING in section.notes) is published


def test_interval_is_the_mean_of_the_trials_intervals(folder):
    sweep = read_runs(folder)
    chosen = select(sweep, "worst-group")
    ends = []
    for run in chosen.loc[chosen["algorithm"] == "cma", "run"]:
        records = sweep.records[(sweep.records["run"] == run) & (sweep.records["metric"] == "group_accuracy")]
        last = records[(records["step"] == 300) & (records["split"] == "test")]
        rows = np.array([GROUP_ROWS["test"][group] for group in last["group"]])
        ends.append(worst_group_interval(np.rint(last["value"].to_numpy() * rows), rows))
    low, high = 100 * np.mean(ends, axis=0)
    row = row_of(only_section(folder), "cma")
    assert row["95% interval"].text == f"{low:.1f} to {high:.1f}"
    assert row["worst group"].low == pytest.approx(low)
    assert row["worst group"].low < row["worst group"].mean < row["worst group"].high


def test_lines_of_the_frame_have_the_interval_of_the_worst_group(folder):
    frame = accuracy_table(read_runs(folder), "worst-group").to_frame()
    assert "95% interval" not in set(frame["column"])
    worst = frame["column"] == "worst group"
    assert (frame.loc[worst, "low"] < frame.loc[worst, "mean"]).all()
    assert frame.loc[~worst, ["low", "high"]].isna().all(axis=None)
    assert "low,high" in accuracy_table(read_runs(folder), "worst-group").to_csv().splitlines()[0]


def test_runs_without_rows_of_groups_have_no_interval(folder):
    for path in folder.glob("*/run.json"):
        about = json.loads(path.read_text())
        if about["config"]["algorithm"] == "cma":
            path.write_text(json.dumps({**about, "group_rows": {"test": {"landbird on land": 10}}}))
    section = only_section(folder)
    assert row_of(section, "cma")["95% interval"].text == ""
    assert " to " in row_of(section, "erm")["95% interval"].text
    assert not any(note.startswith("–") for note in section.notes)


def test_runs_of_earlier_versions_have_average_and_worst_group(tmp_path):
    write_fake_probes(tmp_path, hparams=1, trials=1)
    section = only_section(tmp_path)
    assert section.columns == ("worst group", "average")
    assert "average: over all rows." in section.notes


def test_long_names_of_columns_are_wrapped_in_text(folder):
    lines = accuracy_table(read_runs(folder), "worst-group").to_text().splitlines()
    assert lines[2].split() == ["weighted", "balanced", "worst-group", "calibration"]
    assert lines[3].split()[-2:] == ["AUROC", "error"]
    assert len(lines[4]) < 130


@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_every_format_has_the_columns(folder, form):
    content = getattr(accuracy_table(read_runs(folder), "worst-group"), f"to_{form}")()
    for column in COLUMNS:
        assert column.replace("%", r"\%" if form == "latex" else "%") in content


def test_the_smallest_calibration_error_is_the_best():
    rows = tuple(ResultRow(name, name, False, (ResultCell(value),) * 2) for name, value in (("a", 4.0), ("b", 12.0)))
    columns = ("worst group", "calibration error")
    section = TableSection("x", "x", "probe", "x", (), columns, columns, rows)
    assert [[cell.mean for cell in section.best(column)] for column in (0, 1)] == [[12.0], [4.0]]


@pytest.mark.parametrize(
    ("values", "text"), [([], "–"), ([np.nan, np.nan], ""), ([0.9, np.nan], "90.0*"), ([0.9, 0.9], "90.0 ± 0.0")]
)
def test_a_measure_is_missing_without_runs_and_blank_where_none_recorded_it(values, text):
    own = pd.DataFrame({"AUROC": values, "low": np.nan, "high": np.nan}, dtype=float)
    assert _cell("AUROC", own, 2).text == text
    assert _cell("worst class", own, 2).text == ("–" if not values else "")
