"""Parts of chapters, without a sweep."""

import json
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from momentalign.report import ResultCell, ResultRow, TableSection, _accuracy_chapters, _chapters
from momentalign.report._accuracy_chapters import (
    _group_panels,
    _interval_group,
    _search_group,
    _varied,
    describe_selection,
)
from momentalign.report._chapters import Chapter, Panel, PanelGroup, Tab, figure_json, write_figures
from momentalign.report._charts import bars, curves, dots, heat, scatter
from momentalign.report._diagnosis_page import _strength
from momentalign.report._page import make_chapters
from momentalign.report._style import NameStyles
from momentalign.selection import read_runs
from tests.runs.fake_sweep import make_config, record, write_run


def test_hyperparameters_that_differ_are_drawn_with_their_numbers() -> None:
    hparams = pd.Series([{"lr": 0.1, "a": 1, "name": "x"}, {"lr": 0.2, "a": 1, "name": "y"}, {"a": 1, "late": True}])
    assert _varied(hparams) == [("lr", [0.1, 0.2, None])]


@pytest.mark.parametrize(("rule", "domain"), [("oracle", "a"), ("worst-group", "worst group")])
def test_points_of_a_search_are_named_by_what_was_scored(rule: str, domain: str) -> None:
    runs = pd.DataFrame({"method": "erm", "hparams": [{"lr": 0.1}, {"lr": 0.2}]}, index=["r", "s"])
    points = pd.DataFrame({"run": ["r", "s"], "test_domain": "a", "test": 0.5, "validation": 0.25, "trial": 0})
    case: Any = SimpleNamespace(rule=rule, runs=runs, chosen=points[:1], domains=("a",), title="t")
    found = _search_group(case, "erm", {rule: points})
    assert found is not None
    assert [(row["domain"], row["value"], row["chosen"]) for row in found.panels[0].rows] == [
        (domain, 0.1, True),
        (domain, 0.2, False),
    ]


def test_groups_have_curves_of_the_worst_one_and_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def group_curves(grouped: Any, case: Any, metric: str, split: str) -> pd.DataFrame:
        return pd.DataFrame([{"metric": metric, "split": split}] if (metric, split) != ("accuracy", "val") else [])

    monkeypatch.setattr(_accuracy_chapters, "group_curves", group_curves)
    found = _group_panels(SimpleNamespace(styles=NameStyles([])), SimpleNamespace())  # type: ignore[arg-type]
    assert {what: [(panel.title, panel.rows) for panel in panels] for what, panels in found.items()} == {
        "test": [
            ("worst group", [{"metric": "worst_group_accuracy", "split": "test"}]),
            ("all rows", [{"metric": "accuracy", "split": "test"}]),
        ],
        "training": [("worst group", [{"metric": "worst_group_accuracy", "split": "val"}])],
    }


def _test(**values: Any) -> Any:
    return SimpleNamespace(**values)


def test_a_difference_that_was_not_tested_or_not_found_has_no_colour() -> None:
    assert _strength(None, "diversity shift") == _strength(_test(found=False, size=0.9), "diversity shift") == 0
    assert _strength(_test(found=True, size=0.9), "diversity shift") == 0.8
    assert _strength(_test(found=True, size=0.9), "correlation shift") == 0.9


def selected(hparams: list[dict[str, Any]], rule: str | None = "oracle", status: str = "finished") -> Any:
    names = [f"run {k}" for k in range(len(hparams))]
    runs = pd.DataFrame({"hparams": hparams, "status": status}, index=names)
    return SimpleNamespace(rule=rule, runs=runs, chosen=pd.DataFrame({"run": names, "method": "CMA"}))


@pytest.mark.parametrize(
    ("steps", "note"),
    [
        ([1500, 1500], " Penalties set in at step: CMA 1,500."),
        ([1500, 1000], ""),
        ([0, 0], ""),
        ([True, True], ""),
        ([None, None], ""),
    ],
)
def test_the_step_of_annealing_is_named_where_all_runs_share_it(steps: list[Any], note: str) -> None:
    case = selected([{"anneal_steps": step} for step in steps])
    assert describe_selection(case) == "Runs from oracle selection." + note


def test_runs_that_no_rule_selected_are_named_so() -> None:
    assert describe_selection(selected([{}], None)) == "No run could be selected: all runs so far."
    assert describe_selection(selected([{}], None, "running")) == "No run is finished: all runs so far."


@pytest.mark.parametrize(
    ("values", "powers"),
    [
        ([1.0, 8.0], None),
        ([1.0, 9.0], (0, 1)),
        ([0.0, 9.0], None),
        ([-1.0, 9.0], None),
        ([0.01, 100.0], (-2, -1, 0, 1, 2)),
    ],
)
def test_a_search_over_decades_is_drawn_on_a_logarithmic_axis(
    values: list[float], powers: tuple[int, ...] | None
) -> None:
    runs = pd.DataFrame({"method": "erm", "hparams": [{"lr": value} for value in values]}, index=["r", "s"])
    points = pd.DataFrame({"run": ["r", "s"], "test_domain": "a", "test": 0.5, "validation": 0.25, "trial": 0})
    case: Any = SimpleNamespace(rule="oracle", runs=runs, chosen=points[:1], domains=("a",), title="t")
    found = _search_group(case, "erm", {"oracle": points})
    assert found is not None
    assert found.panels[0].draw.keywords["powers"] == powers
    assert [(row["accuracy"], row["validation"]) for row in found.panels[0].rows] == [(50, 25)] * 2


def section(columns: tuple[str, ...], *rows: ResultRow) -> TableSection:
    return TableSection("toy", "toy", "finetune", "Title", (), columns, columns, rows)


def test_numbers_of_a_table_are_drawn_with_their_error_and_the_published_ones() -> None:
    ours = ResultRow("erm", "ERM", False, (ResultCell(80.0, 1.5, 3), ResultCell(None), ResultCell(70.0)))
    theirs = ResultRow("erm", "ERM", True, (ResultCell(81.0, 0.5), ResultCell(None, expected=False), ResultCell(None)))
    other = ResultRow("cma", "CMA", False, (ResultCell(90.0, 0.5, 3), ResultCell(60.0, None, 1), ResultCell(75.0)))
    group = _interval_group(section(("a", "b", "average"), ours, theirs, other), NameStyles.of(["IRM"]))
    (panel,) = group.panels
    keys = ("method", "column", "low", "mean", "high", "published", "published_mean", "trials")
    assert [tuple(row[key] for key in keys) for row in panel.rows] == [
        ("ERM", "a", 78.5, 80.0, 81.5, "81.0 ± 0.5", 81.0, 3),
        ("ERM", "average", 70.0, 70.0, 70.0, "none", None, 0),
        ("CMA", "a", 89.5, 90.0, 90.5, "none", None, 3),
        ("CMA", "b", 60.0, 60.0, 60.0, "none", None, 1),
        ("CMA", "average", 75.0, 75.0, 75.0, "none", None, 0),
    ]
    assert group.note == "Lines show the table's ±. Ticks are published numbers."
    options = panel.draw.keywords
    assert (options["columns"], options["methods"], options["published"]) == (("a", "b", "average"), 2, True)
    assert options["styles"].names == ("IRM", "ERM", "CMA")
    plain = _interval_group(section(("a",), ResultRow("erm", "ERM", False, (ResultCell(80.0),))), NameStyles(()))
    assert plain.note == ""
    assert _interval_group(section(("a",)), NameStyles(())).panels == []


def test_the_first_figure_has_the_training_domains_and_chance_beside_the_domain_of_the_answer(tmp_path: Path) -> None:
    for name, tested in (("erm", {"a": 0.2, "b": 0.7}), ("cma", {"a": 0.6, "b": 0.72})):
        for trial, (domain, value) in product(range(2), tested.items()):
            lines = [record(9, "accuracy", value, domain, split) for split in ("in", "out")]
            lines += [record(9, "accuracy", 0.9 - 0.1 * trial, other, "out") for other in {"a", "b"} - {domain}]
            config = make_config(algorithm=name, test_domains=[domain], trial=trial, steps=10)
            write_run(tmp_path, config, lines, domains=("a", "b"))
    _, (chapter, *_) = make_chapters(read_runs(tmp_path))
    (result,) = chapter.tabs[0].results
    assert result.section.columns == ("a", "training domains")
    cells = {row.label: [cell.text for cell in row.cells] for row in result.section.rows}
    assert cells == {"ERM": ["20.0 ± 0.0", "85.0 ± 3.5"], "CMA": ["60.0 ± 0.0", "85.0 ± 3.5"]}
    (panel,) = result.group.panels
    assert panel.draw.keywords["chance"] == 50
    assert "chance, 50%" in result.group.note
    for page in (True, False):
        (line,) = (layer for layer in panel.spec(page=page)["layer"] if "strokeDash" in layer["mark"])
        assert line["encoding"]["x"]["datum"] == 50
    assert "On a, CMA is 40.0 points better than ERM" in result.answer[0]


def test_of_data_with_groups_accuracies_are_drawn_and_other_measures_are_not() -> None:
    columns = ("worst group", "average", "calibration error")
    row = ResultRow("erm", "ERM", False, (ResultCell(60.0), ResultCell(90.0), ResultCell(5.0)))
    (panel,) = _interval_group(section(columns, row), NameStyles(())).panels
    assert [drawn["column"] for drawn in panel.rows] == ["worst group", "average"]


ROWS = [{"method": "CMA", "value": 1.0, "low": 0.5, "high": 2.0, "runs": 3, "text": "1 s", "room": 3.0}]
PANEL = Panel("time per step", ROWS, partial(bars, methods=("CMA",), x="s"))


def test_figures_of_one_name_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_chapters, "_WRITERS", {"json": lambda spec: spec})
    names = ["Toy, GPU", "toy GPU", "toy", "Toy (GPU)"]
    tab = Tab("", [*(PanelGroup(name, [PANEL]) for name in names), PanelGroup("empty", [])])
    shares: list[float] = []
    written = write_figures([Chapter("costs", "Costs", "", [tab])], tmp_path, shares.append)
    assert [path.name for path in written] == [
        "costs-toy-gpu.json",
        "costs-toy-gpu~2.json",
        "costs-toy.json",
        "costs-toy-gpu~3.json",
    ]
    assert shares == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(("panels", "columns", "title"), [(1, 1, None), (2, 2, "toy"), (4, 3, "toy")])
def test_a_figure_has_up_to_three_charts_side_by_side(panels: int, columns: int, title: str | None) -> None:
    figure = json.loads(figure_json(PanelGroup("toy", [PANEL] * panels)))
    assert (len(figure["concat"]), figure["columns"], figure.get("title")) == (panels, columns, title)
    assert figure["resolve"] == {"scale": {}}


def test_legends_have_the_names_that_are_drawn() -> None:
    group = PanelGroup("toy", [PANEL], NameStyles(("ERM", "CMA")))
    assert [item["name"] for item in group.legend()] == ["CMA"]
    assert json.loads(figure_json(group))["resolve"]["scale"].keys() == {"color", "shape", "strokeDash"}


def test_legends_of_a_figure_are_restricted_and_its_numbers_are_not() -> None:
    row = {"method": "CMA", "step": 0, "mean": 1.0, "low": 0.5, "high": 2.0, "runs": 3, "marked": True}
    rows = [{**row, "legend": {"title": "a column"}}]
    styles = NameStyles(("ERM", "CMA"))
    group = PanelGroup("toy", [Panel("t", rows, partial(curves, styles=styles, y="y"))], styles)
    (chart,) = json.loads(figure_json(group))["concat"]
    assert chart["data"]["values"] == rows
    _, line, _ = chart["layer"]
    for channel in ("color", "strokeDash"):
        assert line["encoding"][channel]["legend"]["values"] == ["CMA"]


def test_cells_are_as_high_for_many_rows_as_for_few() -> None:
    few, many = (heat(rows=tuple("abcd"[:n]), columns=("x",), titles=("r", "c"), what="w", page=False) for n in (2, 4))
    assert many["height"] == 2 * few["height"]
    opacity = few["layer"][0]["encoding"]["opacity"]["scale"]
    assert (opacity["domain"], opacity["range"][0]) == ([0, 1], 0)
    assert opacity["range"][1] <= 0.6  # or numbers become hard to read on dark pages


def test_bars_and_rows_of_dots_are_as_high_for_many_as_for_few() -> None:
    names = tuple("abcd")
    few, many = (bars(methods=names[:count], x="s", page=True)["height"] for count in (2, 4))
    assert many == 2 * few
    options: dict[str, Any] = {"styles": STYLES, "published": False, "x": "x", "page": True}
    few, many = (dots(columns=names[:count], methods=3, **options)["height"] for count in (2, 4))
    assert many == 2 * few
    lines = [(dots(columns=("a",), methods=count, **options)["height"] - 8) / count for count in (1, 5, 11, 29)]
    assert lines == [19, 15, 9, 9]  # narrower for more methods, as long as points stay apart


STYLES = NameStyles(("ERM",))
FITTED_AXES: dict[str, tuple[Any, str]] = {
    "curves": (partial(curves, styles=STYLES, y="y"), "y"),
    "dots": (partial(dots, styles=STYLES, columns=("a",), methods=1, published=False, x="x"), "x"),
    "search, across": (partial(scatter, styles=STYLES, x="x", y="y", powers=None), "x"),
    "search, upwards": (partial(scatter, styles=STYLES, x="x", y="y", powers=(0, 1)), "y"),
}


@pytest.mark.parametrize("page", [True, False])
@pytest.mark.parametrize("name", FITTED_AXES)
def test_axes_of_accuracies_and_weights_fit_the_numbers_and_need_not_start_at_zero(name: str, page: bool) -> None:
    draw, axis = FITTED_AXES[name]
    scales = [layer["encoding"][axis].get("scale", {}) for layer in draw(page=page)["layer"]]
    assert any("zero" in scale for scale in scales)
    assert all(not scale.get("zero") and scale.get("nice", True) for scale in scales)


@pytest.mark.parametrize(("powers", "form"), [((-2, 4), "~g"), ((-3, 0), ".0e"), ((0, 5), ".0e")])
def test_powers_of_ten_are_written_out_while_they_are_short(powers: tuple[int, ...], form: str) -> None:
    x = scatter(styles=STYLES, x="x", y="y", powers=powers, page=False)["layer"][0]["encoding"]["x"]
    assert x["scale"]["type"] == "log"
    assert (x["axis"]["values"], x["axis"]["format"]) == ([10.0**power for power in powers], form)


def test_a_name_in_focus_is_opaque_and_others_fade() -> None:
    _, line, *_ = curves(styles=STYLES, y="y", page=True)["layer"]
    opacity = line["encoding"]["opacity"]
    assert opacity["condition"]["value"] == 1
    assert 0 < opacity["value"] < 0.3
    assert "condition" not in str(curves(styles=STYLES, y="y", page=False))
