"""The page of `momentalign diagnose`: findings in plain words and pictures, then measures and bounds."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from momentalign._outputs import write_output
from momentalign.report._chapters import Chapter, Panel, PanelGroup, Tab
from momentalign.report._charts import heat
from momentalign.report._diagnosis_charts import (
    column_strips,
    score_dots,
    stacked_shares,
    value_ranges,
)
from momentalign.report._rendering import render_page
from momentalign.report._style import LIGHT, NameStyles
from momentalign.tables import ColumnShift, DomainDiagnosis, Estimate, ShiftTest, class_shares, shift_kinds

_MOST_COLUMNS = 12
_RULE = (
    "Intervals of scores hold with 95%. What leaving a domain out costs is stated if an interval that holds for all "
    "domains at once excludes 0; other differences if p is below 0.05 divided by the number of tests of that kind; "
    "gains of remedies if Student's t interval over the domains excludes 0. Rows are taken as independent."
)


def write_diagnosis(
    diagnosis: DomainDiagnosis, path: str | Path, *, title: str = "Diagnosis", lines: Sequence[str] = ()
) -> None:
    """Write the page of a diagnosis.

    Args:
        diagnosis: Result of :meth:`momentalign.tables.TableDiagnosis.run`.
        path: Of the HTML file, which is written atomically.
        title: Of the page.
        lines: How the table was read.
    """
    rows = diagnosis.rows
    kind = "a number" if rows.classes is None else f"{len(rows.classes)} classes"
    page = render_page(
        "diagnosis.html.jinja",
        title=title,
        subtitle=f"{len(rows.targets):,} rows of {len(rows.names)} domains; the label is {kind}.",
        findings=diagnosis.findings(),
        advice=diagnosis.advice(),
        rule=_RULE,
        chapters=diagnosis_chapters(diagnosis),
        domain_table=_domain_table(diagnosis),
        column_table=_column_table(diagnosis),
        lines=list(lines),
        summary=diagnosis.transfer.summary(),
        measures=diagnosis.transfer.tables(),
    )
    write_output(Path(path), page)


def diagnosis_chapters(diagnosis: DomainDiagnosis) -> list[Chapter]:
    """Charts of the page."""
    makers = (_score_chapter, _label_chapter, _shift_chapter, _column_chapter)
    return [make(diagnosis) for make in makers]


def _one_chart(key: str, title: str, note: str, panel: Panel, styles: NameStyles | None = None) -> Chapter:
    return Chapter(key, title, note, [Tab("", [PanelGroup("", [panel], styles)])])


def _score_chapter(diagnosis: DomainDiagnosis) -> Chapter:
    numbers = diagnosis.rows.classes is None
    styles = NameStyles(("left out", "rows of its own in training"))
    scale = 1 if numbers else 100
    scores = sorted(diagnosis.fits.scores, key=lambda score: score.left_out.value, reverse=numbers)
    rows = []
    for score in scores:
        for model, estimate in zip(styles.names, (score.left_out, score.seen), strict=True):
            if estimate is not None:
                ends = {"value": estimate.value, "low": estimate.low, "high": estimate.high, "guess": score.guess}
                shown = {key: round(scale * number, 6) for key, number in ends.items()}
                about = {"model": model, "domain": score.domain, "rows": score.rows}
                rows.append({**about, **shown, "text": _text(estimate, numbers)})
    x = "mean absolute error" if numbers else "accuracy, %"
    draw = partial(score_dots, styles=styles, domains=tuple(score.domain for score in scores), x=x)
    together = diagnosis.fits.together
    note = (
        ("Ridge" if numbers else "Logistic")
        + " regression with scikit-learn's defaults, fitted without the domain and scored on it; and fitted on four "
        "fifths of all rows, scored on the fifth. Grey ticks: guessing the other domains' "
        + ("mean." if numbers else "most frequent class.")
        + (f" Up to {together} domains are left out at a time." if together > 1 else "")
    )
    return _one_chart("left-out", "A plain model on each domain", note, Panel(x, rows, draw), styles)


def _label_chapter(diagnosis: DomainDiagnosis) -> Chapter:
    rows = diagnosis.rows
    if rows.classes is None:
        values = []
        for index, name in enumerate(rows.names):
            low, middle, high = np.quantile(rows.targets[rows.domains == index], [0.25, 0.5, 0.75]).tolist()
            text = Estimate(middle, low, high).format(".4g")
            values.append({"domain": name, "value": middle, "low": low, "high": high, "text": text})
        panel = Panel("label", values, partial(value_ranges, domains=rows.names, x="label"))
        return _one_chart("labels", "Labels by domain", "Median and middle half of the label.", panel)
    shares = class_shares(rows)
    kept = list(np.argsort(-shares.mean(0), kind="stable"))
    kept, rest = kept[: len(LIGHT) - 1 if len(kept) > len(LIGHT) else None], kept[len(LIGHT) - 1 :]
    parts = {rows.classes[index]: shares[:, index] for index in kept}
    if len(rows.classes) > len(LIGHT):
        parts[f"{len(rest)} other classes"] = shares[:, rest].sum(1)
    styles = NameStyles(tuple(parts))
    cells = [
        {
            "label": label,
            "domain": name,
            "share": round(float(own[index]), 6),
            "text": f"{own[index]:.1%}",
            "number": at,
        }
        for at, (label, own) in enumerate(parts.items())
        for index, name in enumerate(rows.names)
    ]
    panel = Panel("share of the rows", cells, partial(stacked_shares, styles=styles, domains=rows.names))
    note = "Share of each class among the rows of a domain."
    return _one_chart("labels", "Classes by domain", note, panel, styles)


def _shift_chapter(diagnosis: DomainDiagnosis) -> Chapter:
    kinds = shift_kinds(diagnosis)
    cells = [
        {"row": name, "column": kind.name, "text": _shift_text(test, kind.form), "share": _strength(test, kind.name)}
        for kind in kinds
        for name, test in zip(diagnosis.rows.names, kind.tests, strict=True)
    ]
    columns = tuple(kind.name for kind in kinds)
    draw = partial(heat, rows=diagnosis.rows.names, columns=columns, titles=("domain", "shift"), what="size")
    meanings = "; ".join(f"{kind.name}, {kind.meaning}" for kind in kinds)
    note = f"How each domain differs from the others: {meanings}. A dash: no difference found."
    panel = Panel("size of the difference where one was found", cells, draw)
    return _one_chart("kinds", "Kinds of difference", note, panel)


def _shift_text(test: ShiftTest | None, form: str) -> str:
    return "few rows" if test is None else form.format(test.size) if test.found else "–"


def _strength(test: ShiftTest | None, kind: str) -> float:
    """Strength of a cell's colour, 0 to 1; 0 if no difference was found."""
    if test is None or not test.found:
        return 0.0
    size = 2 * test.size - 1 if kind == "diversity shift" else test.size
    return round(min(max(size, 0.0), 1.0), 3)


def _column_chapter(diagnosis: DomainDiagnosis) -> Chapter:
    names = diagnosis.rows.names
    columns = [column for column in diagnosis.columns if column.found][:_MOST_COLUMNS]
    title = "Columns that differ"
    if not columns:
        return Chapter("columns", title, "", [], ["no column was found to differ between the domains."])
    styles = NameStyles(names) if len(names) <= len(LIGHT) else None
    rows = [
        {
            "column": column_label(column),
            "domain": name,
            "value": round(float(column.standard[index]), 4),
            "text": f"{column.means[index]:.4g}",
            "missing": f"{column.missing[index]:.0%}",
        }
        for column in columns
        for index, name in enumerate(names)
    ]
    note = (
        "Columns by what they contribute to the distances between the domains' averages, the largest first; a category "
        f"stands for its column. Shown: {len(columns)} of {len(diagnosis.columns)} columns."
    )
    draw = partial(column_strips, styles=styles, columns=tuple(map(column_label, columns)))
    return _one_chart("columns", title, note, Panel("means of the domains", rows, draw), styles)


def column_label(column: ColumnShift) -> str:
    """Name of a column, with its category if one is shown."""
    return f"{column.name} = {column.what}" if column.what else column.name


def _domain_table(diagnosis: DomainDiagnosis) -> list[list[str]]:
    numbers = diagnosis.rows.classes is None
    what = "mean absolute error" if numbers else "accuracy"
    rows = [["domain", "rows", f"{what}, left out", f"{what}, own rows in training", "cost of leaving it out"]]
    for score in diagnosis.fits.scores:
        cells = [_text(each, numbers) for each in (score.left_out, score.seen, score.loss)]
        rows.append([score.domain, str(score.rows), *cells])
    return rows


def _column_table(diagnosis: DomainDiagnosis) -> list[list[str]]:
    names = diagnosis.rows.names
    rows = [["column", "share of the difference", "lowest mean", "highest mean", "missing values"]]
    for column in diagnosis.columns[:50]:
        low, high = int(column.means.argmin()), int(column.means.argmax())
        rows.append(
            [
                column_label(column),
                f"{column.share:.1%}" if column.found else "none found",
                f"{column.means[low]:.4g} ({names[low]})",
                f"{column.means[high]:.4g} ({names[high]})",
                f"{column.missing.min():.0%} to {column.missing.max():.0%}",
            ]
        )
    return rows


def _text(estimate: Estimate | None, numbers: bool) -> str:
    if estimate is None:
        return "too few rows"
    return estimate.format(".4g") if numbers else estimate.format(".1f", 100)
