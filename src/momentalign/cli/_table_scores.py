"""Tables of the scores of linear models: by domain, and over groups."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from momentalign._format import join_first
from momentalign.cli._output import format_percent, numbers_table, print_lines

if TYPE_CHECKING:
    from momentalign.sklearn import GroupReport
    from momentalign.tables import TableModel, TableScores

_FEW_ROWS = 20


def print_scores(console: Console, scores: "TableScores", rows: str) -> None:
    """Print scores by domain, and the measures over groups if any; `rows` names the rows in titles."""
    console.print(_table(scores, rows))
    small = [f"'{name}' ({size})" for kind, name, size in scores.rows if kind == "domain" and size < _FEW_ROWS]
    if small and any(kind == "mean" for kind, _, _ in scores.rows):
        console.print(
            f"The mean weights domains equally, and one of few rows may be the worst by chance: {join_first(small)}."
        )
    if scores.groups:
        _print_groups(console, scores.groups, rows)


def print_fitted_note(console: Console, model: "TableModel", folder: Path, path: str) -> None:
    """Point to the held-out scores if the model in `folder` was fitted to rows of the file `path`."""
    if model.fitted_on(path):
        console.print(
            f"The model was fitted to rows of this file: {folder / 'scores.csv'} has scores of held-out rows."
        )


def _table(scores: "TableScores", rows: str) -> Table:
    classes = scores.metrics == ("accuracy",)
    endings = {"accuracy": "", "r2": " R²", "rmse": " RMSE"}
    columns = [name + endings[metric] for metric in scores.metrics for name in scores.models]
    table = numbers_table(("Accuracy in %" if classes else "R² and RMSE") + f" on {rows}", "", "rows", *columns)
    domains = sum(kind == "domain" for kind, _, _ in scores.rows)
    for number, ((kind, name, size), values) in enumerate(zip(scores.rows, scores.values, strict=True), 1):
        cells = map(format_percent if classes else _number, values.T.ravel())
        table.add_row(name, str(size) if kind == "domain" else "", *cells, end_section=number == domains)
    return table


def _print_groups(console: Console, groups: "Mapping[str, GroupReport]", rows_name: str) -> None:
    """Measures over groups of each model, then the accuracy of each group."""
    from momentalign._worst_group import GROUP_MEASURES

    reports = list(groups.values())
    first, rows = reports[0], sum(group.rows for group in reports[0].groups)
    table = numbers_table(f"Measures over groups in % on {rows_name}", "", "rows", *groups)
    for metric, label in GROUP_MEASURES.items():
        if all(metric not in report.metrics() for report in reports):
            continue
        values = [format_percent(report.metrics().get(metric)) for report in reports]
        table.add_row(label, str(rows), *values, end_section=metric == "calibration_error")
        if metric == "worst_group_accuracy":
            worst = [report.worst_group for report in reports]
            ends = [f"{format_percent(group.low)} to {format_percent(group.high)}" for group in worst]
            table.add_row(f"  {100 * first.confidence:g}% interval", "", *ends)
            table.add_row("  which", "", *(group.name for group in worst))
    for number, group in enumerate(first.groups):
        accuracies = [format_percent(report.groups[number].accuracy) for report in reports]
        table.add_row(group.name, str(group.rows), *accuracies)
    console.print(table)
    console.print(
        "average: over all rows. weighted average: of the groups, by their shares of the training rows. balanced "
        f"accuracy: mean over classes. calibration error: {first.bins} bins of equal width."
    )
    print_lines(console, dict.fromkeys(note for report in reports for note in report.notes))


def _number(value: float) -> str:
    if value != value:
        return "–"
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e9 else f"{value:#.4g}"
