"""Chapters on accuracy: tables with intervals, learning curves, hyper-parameters."""

import math
from functools import partial
from typing import Any

import pandas as pd

from momentalign.published import AVERAGE, WORST_GROUP
from momentalign.report._answer import describe
from momentalign.report._cases import Case, GroupedSweep
from momentalign.report._chapters import Chapter, Panel, PanelGroup, Tab, TableWithChart
from momentalign.report._charts import ChartRows, curves, decades, dots, scatter
from momentalign.report._comparison import Comparison
from momentalign.report._frames import accuracy_curves, chart_rows, group_curves
from momentalign.report._group_table import ACCURACIES
from momentalign.report._names import algorithm_label, list_algorithms
from momentalign.report._sections import SectionRule, trial_cell
from momentalign.report._style import NameStyles
from momentalign.report._table import ResultRow, ResultTable, TableSection, paired_cells
from momentalign.runs import RunState
from momentalign.selection import GROUP_RULES, candidates

ACCURACY_AXIS = "accuracy, %"

_RULE_TITLES = {
    "training-domain": "Training domains",
    "extrapolated": "Extrapolated",
    "leave-one-domain-out": "Leave one domain out",
    "worst-group": "Worst group",
    "worst-class": "Worst class",
    "train-groups": "Training groups",
    "oracle": "Oracle (test labels)",
}


def answer_chapter(grouped: GroupedSweep, tables: dict[str, ResultTable]) -> Chapter:
    """What was found against ERM on each data set, by extrapolated selection or the first rule that applies."""
    compared: dict[tuple[str, str], tuple[str, Comparison]] = {}
    for rule in sorted(tables, key=lambda rule: rule != "extrapolated"):
        for section in tables[rule].sections:
            if (found := section.comparison) and found.differences:
                compared.setdefault((section.dataset, section.setting), (rule, found))
    results, missing = [], []
    for case in grouped.cases:
        if own := compared.get((case.dataset, case.setting)):
            results.append(_answer(grouped, case, *own))
        else:
            missing.append(f"{case.title}: ERM and another method need finished runs in common.")
    return Chapter("answer", "Against ERM", "", [Tab("", results=results)], missing)


def _answer(grouped: GroupedSweep, case: Case, rule: str, comparison: Comparison) -> TableWithChart:
    """The answer of a table, and accuracy on the domain of its largest difference beside the training domains'."""
    domain = str(comparison.best_by_domain[0].domain)
    chosen = grouped.choices[rule]
    chosen = chosen[chosen["run"].isin(case.runs.index) & (chosen["test_domain"].fillna(WORST_GROUP) == domain)]
    title, groups = SectionRule(rule, grouped.reach).title, int(rule in GROUP_RULES)
    column, head = ("average", AVERAGE) if groups else ("held_out", "training domains")
    known = "over all rows" if groups else f"mean over their held-out rows, in the runs that leave {domain} out"
    rows = []
    for name in list_algorithms(chosen):
        both = (chosen.loc[chosen["algorithm"] == name, each].dropna() for each in ("test", column))
        cells = tuple(trial_cell(values, True, ddof=groups, decimals=1 + groups) for values in both)
        rows.append(ResultRow(name, algorithm_label(name), False, cells))
    about = (case.dataset, case.title, case.setting, f"{case.title}: accuracy in %, {title}", (f"{head}: {known}.",))
    table = TableSection(*about, (domain, head), (domain, head), tuple(rows))
    chance = next(iter(100 / case.runs["num_classes"].dropna()), None)
    *lines, sentence = describe(comparison)
    return TableWithChart(
        table,
        _interval_group(table, grouped.styles, chance),
        (f"{case.title}, {title}: {sentence}", *lines[1:], *lines[:1]),
    )


def accuracy_chapter(grouped: GroupedSweep, tables: dict[str, ResultTable]) -> Chapter:
    """A tab for each rule that applies: tables and their intervals."""
    tabs = []
    for rule, table in tables.items():
        results = [TableWithChart(section, _interval_group(section, grouped.styles)) for section in table.sections]
        tabs.append(Tab(_RULE_TITLES[rule], results=results))
    missing = [f"{_RULE_TITLES[rule]}: {reason}" for rule, reason in grouped.unavailable.items()]
    note = (
        "Test accuracy depends on the rule that selects hyper-parameters and steps. Only the oracle reads labels of "
        "the test domain. Underlined: the best of a column, and all that differ from it by no more than the ± of the "
        "two."
    )
    return Chapter("accuracy", "Accuracy by selection rule", note, tabs, missing)


def curve_chapter(grouped: GroupedSweep) -> Chapter:
    """Accuracy over steps on test and on validation rows."""
    groups: dict[str, list[PanelGroup]] = {"test": [], "training": []}
    missing = []
    for case in grouped.cases:
        panels = _domain_panels(grouped, case) or _group_panels(grouped, case)
        for what, own in panels.items():
            groups[what].append(PanelGroup(case.title, own, grouped.styles, describe_selection(case)))
        if not panels:
            diverged = case.runs.index.isin(grouped.sweep.diverged().index).any()
            missing.append(f"{case.title}: no records {'before the runs diverged' if diverged else 'yet'}.")
    test = "All but the held-out rows of the test domain; for data with groups, the test split."
    training = "Mean over the held-out rows of the training domains; for data with groups, the validation split."
    tabs = [
        Tab("On test rows", groups["test"], note=test),
        Tab("On validation rows", groups["training"], note=training),
    ]
    note = "Mean over trials; the band is one standard deviation."
    return Chapter("curves", "Learning curves", note, [tab for tab in tabs if tab.groups], missing)


def search_chapter(grouped: GroupedSweep) -> Chapter:
    """A tab for each method: accuracy by each hyper-parameter that took more than one value."""
    rules = {case.rule for case in grouped.cases if case.rule}
    points = {rule: candidates(grouped.sweep, rule, reach=grouped.reach) for rule in rules}
    tabs, missing = [], []
    for method in grouped.methods:
        groups = [group for case in grouped.cases if (group := _search_group(case, method, points)) is not None]
        if groups:
            tabs.append(Tab(method, groups))
        else:
            missing.append(f"{method}: no finished runs with different hyper-parameters.")
    if not tabs:
        missing = ["no method has finished runs with different hyper-parameters."]
    note = "Each point is a run; selected runs are filled."
    return Chapter("search", "Hyper-parameters", note, tabs, missing)


def describe_selection(case: Case) -> str:
    """Which runs are shown for a method, and the step at which each annealed penalty starts."""
    if case.rule is None:
        finished = (case.runs["status"] == RunState.FINISHED).any()
        return f"No run {'could be selected' if finished else 'is finished'}: all runs so far."
    annealed = []
    for method, own in case.chosen.groupby("method", sort=False):
        found = [hparams.get("anneal_steps") for hparams in case.runs.loc[own["run"], "hparams"]]
        steps = {step if _is_number(step) else None for step in found}
        if len(steps) == 1 and (step := steps.pop()):
            annealed.append(f"{method} {step:,}")
    note = f"Runs from {case.rule} selection."
    return note + (f" Penalties set in at step: {', '.join(annealed)}." if annealed else "")


def accuracy_panel(grouped: GroupedSweep, title: str, rows: ChartRows) -> Panel:
    """Accuracy over steps, one line per method."""
    return Panel(title, rows, partial(curves, styles=grouped.styles, y=ACCURACY_AXIS))


def _domain_panels(grouped: GroupedSweep, case: Case) -> dict[str, list[Panel]]:
    """A panel for each test domain, on test and on validation rows."""
    frame = accuracy_curves(grouped, case)
    panels: dict[str, list[Panel]] = {}
    for what in ("test", "training"):
        own = frame[frame["what"] == what]
        for domain in case.domains:
            rows = chart_rows(own[own["test_domain"] == domain].drop(columns=["what", "test_domain"]))
            if rows:
                panels.setdefault(what, []).append(accuracy_panel(grouped, f"{domain} left out", rows))
    return panels


def _group_panels(grouped: GroupedSweep, case: Case) -> dict[str, list[Panel]]:
    """Worst group and average, on the test and on the validation split."""
    panels: dict[str, list[Panel]] = {}
    for what, split in (("test", "test"), ("training", "val")):
        for metric, title in (("worst_group_accuracy", "worst group"), ("accuracy", "all rows")):
            rows = chart_rows(group_curves(grouped, case, metric, split))
            if rows:
                panels.setdefault(what, []).append(accuracy_panel(grouped, title, rows))
    return panels


def _interval_group(section: TableSection, styles: NameStyles, chance: float | None = None) -> PanelGroup:
    """Chart of a table's numbers and their errors, and of chance."""
    drawn = ACCURACIES if WORST_GROUP in section.columns else section.columns
    rows: list[dict[str, Any]] = []
    for row, column, cell, theirs in paired_cells(section):
        if cell.mean is None or column not in drawn:
            continue
        error = cell.error or 0.0
        rows.append(
            {
                "method": row.label,
                "column": column,
                "mean": round(cell.mean, 4),
                "low": round(cell.mean - error, 4),
                "high": round(cell.mean + error, 4),
                "text": cell.text,
                "trials": cell.trials,
                "published": "none" if theirs.mean is None else theirs.text,
                "published_mean": theirs.mean,
            }
        )
    methods = {row["method"] for row in rows}
    shown = NameStyles.of([*styles.names, *(row["method"] for row in rows)])
    columns = tuple(column for column in section.columns if any(row["column"] == column for row in rows))
    known = any(row["published_mean"] is not None for row in rows)
    draw = partial(
        dots,
        styles=shown,
        columns=columns,
        methods=len(methods),
        published=known,
        x=ACCURACY_AXIS,
        chance=chance,
    )
    note = "Lines show the table's ±." if any(row["low"] < row["high"] for row in rows) else ""
    note += " Ticks are published numbers." if known else ""
    note += f" Dashed: chance, {chance:.3g}%." if chance is not None else ""
    panels = [Panel(section.title, rows, draw)] if rows else []
    return PanelGroup(section.label or "all data sets", panels, shown, note.strip())


def _search_group(case: Case, method: str, points: dict[str, pd.DataFrame]) -> PanelGroup | None:
    if case.rule is None:
        return None
    runs = case.runs[case.runs["method"] == method]
    own = points[case.rule]
    own = own[own["run"].isin(runs.index)]
    if own.empty:
        return None
    chosen = set(case.chosen["run"])
    worst = case.rule in GROUP_RULES
    rows = [
        {
            "run": point.run,
            "domain": "worst group" if worst else point.test_domain,
            "accuracy": round(point.test * 100, 3),
            "validation": round(point.validation * 100, 3),
            "trial": point.trial,
            "chosen": point.run in chosen,
        }
        for point in own.itertuples()
    ]
    styles = NameStyles.of(["worst group"] if worst else case.domains)
    panels = []
    for name, values in _varied(runs.loc[[row["run"] for row in rows], "hparams"]):
        known = [{**row, "value": value} for row, value in zip(rows, values, strict=True) if value is not None]
        numbers = [row["value"] for row in known]
        log = min(numbers) > 0 and max(numbers) > 8 * min(numbers)
        powers = decades(numbers) if log else None
        panels.append(Panel(name, known, partial(scatter, styles=styles, x=name, y=ACCURACY_AXIS, powers=powers)))
    return PanelGroup(case.title, panels, styles, f"Under {case.rule} selection.") if panels else None


def _varied(hparams: pd.Series) -> list[tuple[str, list[float | None]]]:
    """Numeric hyper-parameters that differ between runs, with their values."""
    varied = []
    for name in dict.fromkeys(str(key) for own in hparams for key in own):
        values: list[Any] = [own.get(name) for own in hparams]
        numbers = [float(v) if _is_number(v) else None for v in values]
        if len({number for number in numbers if number is not None}) > 1:
            varied.append((name, numbers))
    return varied


def _is_number(value: Any) -> bool:
    """Whether a hyper-parameter can be plotted."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
