"""Tables and intervals by selection rule, and accuracy over steps."""

from functools import partial
from typing import Any

from momentalign.report._blocks import Block, Group, Panel, Result, Tab
from momentalign.report._cases import Case, Ordered
from momentalign.report._charts import curves, dots
from momentalign.report._frames import accuracy_curves, group_curves, rows_of
from momentalign.report._table import Section, Table
from momentalign.report._theme import Looks

RULES = {
    "oracle": "Oracle",
    "training-domain": "Training domains",
    "leave-one-domain-out": "Leave one domain out",
    "worst-group": "Worst group",
}
"""What the page calls the rules; the tables say what each does."""

ACCURACY = "accuracy, %"
"""Title of an axis."""


def accuracy_block(ordered: Ordered, tables: dict[str, Table]) -> Block:
    """Tables for every rule that the sweep can answer, each with its intervals drawn."""
    tabs = []
    for rule, table in tables.items():
        results = [Result(section, _interval_group(section, looks_of(ordered))) for section in table.sections]
        tabs.append(Tab(RULES[rule], results=results))
    missing = [f"{RULES[rule]}: {reason}" for rule, reason in ordered.unanswered.items()]
    return Block(
        "accuracy", "Accuracy by selection rule", "A number means something with its rule only.", tabs, missing
    )


def curve_block(ordered: Ordered) -> Block:
    """Accuracy over steps, on the test domain and on the training domains."""
    found: dict[str, list[Group]] = {"test": [], "training": []}
    missing = []
    looks = looks_of(ordered)
    for case in ordered.cases:
        panels = _domain_panels(ordered, case, looks) or _group_panels(ordered, case, looks)
        for what, own in panels.items():
            found[what].append(Group(case.title, own, looks, standing(case)))
        if not panels:
            diverged = case.runs.index.isin(ordered.sweep.diverged().index).any()
            missing.append(f"{case.title}: no records {'that count' if diverged else 'yet'}.")
    names = {"test": "On test rows", "training": "On validation rows"}
    notes = {
        "test": "Of the domain that was left out, all but the held-out rows; of a set with groups, its test split.",
        "training": "Mean over the held-out rows of the training domains; of a set with groups, its validation split.",
    }
    tabs = [Tab(names[what], groups, note=notes[what]) for what, groups in found.items() if groups]
    note = "Mean over trials; the band is one standard deviation."
    return Block("curves", "Learning curves", note, tabs, missing)


def _domain_panels(ordered: Ordered, case: Case, looks: Looks) -> dict[str, list[Panel]]:
    """A panel for each domain that was left out, on test and on validation rows."""
    frame = accuracy_curves(ordered, case)
    found: dict[str, list[Panel]] = {}
    for what in ("test", "training"):
        own = frame[frame["what"] == what]
        for domain in case.domains:
            rows = rows_of(own[own["test_domain"] == domain].drop(columns=["what", "test_domain"]))
            if rows:
                draw = partial(curves, looks=looks, y=ACCURACY)
                found.setdefault(what, []).append(Panel(f"{domain} left out", rows, draw))
    return found


def _group_panels(ordered: Ordered, case: Case, looks: Looks) -> dict[str, list[Panel]]:
    """Worst group and average, on the test and on the validation split."""
    found: dict[str, list[Panel]] = {}
    for what, split in (("test", "test"), ("training", "val")):
        for metric, title in (("worst_group_accuracy", "worst group"), ("accuracy", "all rows")):
            rows = rows_of(group_curves(ordered, case, metric, split))
            if rows:
                draw = partial(curves, looks=looks, y=ACCURACY)
                found.setdefault(what, []).append(Panel(title, rows, draw))
    return found


def looks_of(ordered: Ordered) -> Looks:
    """The same look for a method in all charts."""
    return Looks.of(ordered.methods)


def standing(case: Case) -> str:
    """Which runs stand for a method."""
    if case.rule is None:
        finished = (case.runs["status"] == "finished").any()
        return f"No run {'could be chosen' if finished else 'is finished'}: all runs so far."
    return f"Runs chosen by {case.rule} selection." + _annealing(case)


def _annealing(case: Case) -> str:
    """Where weights set in, of methods whose chosen runs agree on it."""
    parts = []
    for method, own in case.chosen.groupby("method", sort=False):
        steps = {hparams.get("anneal_steps") for hparams in case.runs.loc[own["run"], "hparams"]}
        if len(steps) == 1 and (step := steps.pop()):
            parts.append(f"{method} {step:,}")
    return f" Penalties set in at step: {', '.join(parts)}." if parts else ""


def _interval_group(section: Section, looks: Looks) -> Group:
    published = {row.algorithm: row.cells for row in section.rows if row.published}
    rows: list[dict[str, Any]] = []
    for row in section.rows:
        if row.published:
            continue
        for number, (column, cell) in enumerate(zip(section.columns, row.cells, strict=True)):
            if cell.mean is None:
                continue
            theirs = published[row.algorithm][number] if row.algorithm in published else None
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
                    "published": theirs.text if theirs is not None and theirs.mean is not None else "none",
                    "published_mean": theirs.mean if theirs is not None else None,
                }
            )
    title = section.label or "all data sets"
    used = {row["method"] for row in rows}
    shown = looks if used <= set(looks.names) else Looks.of([*looks.names, *(row["method"] for row in rows)])
    columns = tuple(column for column in section.columns if any(row["column"] == column for row in rows))
    known = any(row["published_mean"] is not None for row in rows)
    draw = partial(dots, looks=shown, columns=columns, methods=len(used), published=known, x=ACCURACY)
    note = "Lines are the table's ±." if any(row["low"] < row["high"] for row in rows) else ""
    note += " Upright ticks are published numbers." if known else ""
    return Group(title, [Panel(section.title, rows, draw)] if rows else [], shown, note.strip())
