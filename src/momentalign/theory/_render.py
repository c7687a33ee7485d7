"""A transfer report as plain text and as one self-contained web page."""

import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from momentalign._format import align_columns, printable
from momentalign.theory._tables import (
    DomainMatrix,
    Quantity,
    bound_rows,
    domain_matrices,
    domain_rows,
    headline,
    subtitle,
    target_rows,
)

if TYPE_CHECKING:
    from momentalign.theory._report import TransferReport

_WIDTH = 100
_NAME_WIDTH = 16

_PAGE_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --dim: #5d646d; --paper: #ffffff; --line: #d9dde2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --dim: #a3abb5; --paper: #16181c; --line: #373c44; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 76rem; padding: 0 1rem; }
h1 { margin: 0; font-size: 1.7rem; }
h2 { margin: 2.2rem 0 .6rem; font-size: 1.2rem; }
p { margin: .4rem 0; max-width: 48rem; }
.dim { color: var(--dim); font-weight: normal; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .55rem; border: 1px solid var(--line); text-align: right; }
th { font-weight: 600; max-width: 12rem; overflow-wrap: break-word; }
tbody th, td.text { text-align: left; }
""".strip()

_SECTION_STYLE = """
.worst { font-size: 1.1rem; border-left: 4px solid #f59e0b; padding-left: .8rem; margin: 1rem 0; }
.maps { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(30rem, 100%), 1fr)); gap: 1.6rem; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
caption span { display: block; font-size: .85rem; color: var(--dim); font-weight: normal;
  max-width: calc(100vw - 2rem); }
@media (max-width: 30rem) {
  caption ~ * :is(th, td) { padding: .2rem .3rem; }
  caption ~ * small { white-space: normal; }
}
td.strong { color: #14161a; }
td small { display: block; font-size: .75rem; }
td.none { color: var(--dim); }
""".strip()
"""Style of the sections in any page; the page itself defines its colours."""


def report_text(report: "TransferReport") -> str:
    """Render the report as plain text, worst pair first."""
    pareto = report.pareto
    names = [_short(name) for name in report.names]
    domains = [[_short(name), *cells] for name, *cells in domain_rows(report)]
    header = ["domain", "rows", "loss", "its best", "gradient norm", "weight"]
    parts = [
        _wrapped("Transfer report: " + subtitle(report)),
        _wrapped(headline(report)),
        _wrapped(
            "Centre of the ball: the weakly Pareto-optimal head with the smallest largest gradient norm, "
            f"{pareto.largest_gradient_norm:.4g} (smallest combination of the gradients {pareto.check.norm:.1g})."
        ),
        "The domains at the centre\n" + _aligned(domains, header),
    ]
    for matrix in domain_matrices(report):
        body = [[name, *row] for name, row in zip(names, _text_cells(matrix), strict=True)]
        parts.append(f"{matrix.title} ({matrix.remark})\n" + _aligned(body, ["", *names]))
    parts.append("Upper bounds on the transfer to a target in the convex hull\n" + _quantities(bound_rows(report)))
    if report.hull is not None:
        hull = report.hull
        mixture = ", ".join(f"{_short(name)} {w:.2f}" for name, w in zip(hull.names, hull.weights, strict=True))
        parts.append(_wrapped(f"Hull check: {report.hull.sentence} Closest mixture: {mixture}."))
    if report.target is not None:
        parts.append("The labelled target at the centre of the ball\n" + _quantities(target_rows(report.target)))
    if report.notes:
        parts.append("Notes\n" + "\n".join(_wrapped(f"- {note}", "  ") for note in report.notes))
    return "\n\n".join(parts)


def _short(name: str) -> str:
    shown = printable(name)
    return shown if len(shown) <= _NAME_WIDTH else shown[: _NAME_WIDTH - 1] + "…"


def _text_cells(matrix: DomainMatrix) -> list[list[str]]:
    """Entries as text, with their intervals; the diagonal stays empty."""
    cells = [[_number(value) for value in row] for row in matrix.values]
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            if matrix.intervals is not None and cell != "–":
                low, high = (ends[i, j] for ends in matrix.intervals)
                row[j] = f"{cell} [{low:.3g}, {high:.3g}]"
        row[i] = ""
    return cells


def _number(value: float) -> str:
    return "–" if value != value else f"{value:.4g}"


def _aligned(body: Sequence[Sequence[str]], header: Sequence[str]) -> str:
    """Indented columns below their headers, the first left-aligned, the others right-aligned."""
    return "\n".join(f"  {line}" for line in align_columns([header, *body], right=range(1, len(header))))


def _quantities(rows: list[Quantity]) -> str:
    width = max(len(row.name) for row in rows)
    return "\n".join(f"  {row.name.ljust(width)}  {_number(row.value):>9}  {row.remark}" for row in rows)


def _wrapped(sentence: str, indent: str = "") -> str:
    return textwrap.fill(printable(sentence), _WIDTH, subsequent_indent=indent, break_long_words=False)


def report_page(report: "TransferReport") -> str:
    """Render the report as a page without scripts or network access, light and dark; names from data are escaped."""
    return (
        "<!DOCTYPE html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n<title>Transfer report</title>\n"
        f"<style>\n{_PAGE_STYLE}\n</style>\n</head>\n<body>\n<h1>Transfer report</h1>\n{report_sections(report)}\n"
        "</body>\n</html>\n"
    )


def report_sections(report: "TransferReport", heading: str = "h2") -> str:
    """The sections of the page with their style, to embed in any page; names from data are escaped."""
    pareto = report.pareto
    columns = ["domain", "rows", "loss", "its best loss", "gradient norm", "weight in the centre's mixture"]
    parts = [
        (
            "The domains at the centre of the ball",
            "<p>The centre is the weakly Pareto-optimal head with the smallest largest gradient norm, "
            f"{pareto.largest_gradient_norm:.4g}; the smallest combination of the gradients there is "
            f"{pareto.check.norm:.1g}.</p>\n" + _html_table(columns, domain_rows(report)),
        ),
        (
            "Between domains",
            "<p class='dim'>Source in rows, target in columns.</p>\n<div class='maps'>\n"
            + "\n".join(_heat_map(matrix, report.names) for matrix in domain_matrices(report))
            + "\n</div>",
        ),
        ("Upper bounds on the transfer to a target in the convex hull", _quantity_table(bound_rows(report))),
    ]
    if report.hull is not None:
        weights = [[name, f"{w:.3f}"] for name, w in zip(report.hull.names, report.hull.weights, strict=True)]
        table = _html_table(["source", "weight in the closest mixture"], weights)
        parts.append(("Hull check", f"<p>{_escaped(report.hull.sentence)}</p>\n{table}"))
    if report.target is not None:
        parts.append(("The labelled target at the centre", _quantity_table(target_rows(report.target))))
    if report.notes:
        items = "\n".join(f"<li>{_escaped(note)}</li>" for note in report.notes)
        parts.append(("Notes", f"<ul>\n{items}\n</ul>"))
    sections = [f"<{heading}>{title}</{heading}>\n{content}" for title, content in parts]
    return "\n".join(
        [
            f"<style>\n{_SECTION_STYLE}\n</style>",
            f"<p class='dim'>{_escaped(subtitle(report))}</p>",
            f"<p class='worst'>{_escaped(headline(report))}</p>",
            *sections,
        ]
    )


def _escaped(text: str) -> str:
    """Escape text for HTML, control characters included."""
    return escape(printable(text))


def _heat_map(matrix: DomainMatrix, names: Sequence[str]) -> str:
    """A matrix as a table whose cells are coloured by their share of the largest entry."""
    finite = matrix.values[np.isfinite(matrix.values)]
    largest = float(finite.max()) if finite.size else 0.0
    head = "".join(f"<th scope='col'>{_escaped(name)}</th>" for name in names)
    cells = ["".join(_heat_cell(matrix, i, j, largest) for j in range(len(names))) for i in range(len(names))]
    rows = "\n".join(
        f"<tr><th scope='row'>{_escaped(name)}</th>{row}</tr>" for name, row in zip(names, cells, strict=True)
    )
    return (
        f"<div class='scroll'><table><caption>{_escaped(matrix.title)}<span>{_escaped(matrix.remark)}</span>"
        f"</caption>\n<thead><tr><td></td>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _heat_cell(matrix: DomainMatrix, i: int, j: int, largest: float) -> str:
    value = float(matrix.values[i, j])
    if i == j or not np.isfinite(value):
        return f"<td class='none'>{'' if i == j else '–'}</td>"
    share = min(max(value / largest, 0.0), 1.0) if largest > 0 else 0.0
    # Above this the background is bright enough for dark text in dark mode as well.
    strong = " class='strong'" if share > 0.7 else ""
    interval = ""
    if matrix.intervals is not None:
        low, high = (ends[i, j] for ends in matrix.intervals)
        interval = f"<small>{low:.3g} to {high:.3g}</small>"
    return f"<td{strong} style='background: rgba(245, 158, 11, {0.9 * share:.2f})'>{value:.4g}{interval}</td>"


def _quantity_table(rows: list[Quantity]) -> str:
    return _html_table(["", "value", ""], [[row.name, f"{row.value:.4g}", row.remark] for row in rows], text_column=2)


def _html_table(header: Sequence[str], rows: Iterable[Sequence[str]], text_column: int | None = None) -> str:
    head = "".join(f"<th scope='col'>{_escaped(name)}</th>" for name in header)
    lines = []
    for first, *rest in rows:
        cells = "".join(
            f"<td{' class=' + repr('text') if index == text_column else ''}>{_escaped(cell)}</td>"
            for index, cell in enumerate(rest, 1)
        )
        lines.append(f"<tr><th scope='row'>{_escaped(first)}</th>{cells}</tr>")
    body = "\n".join(lines)
    return f"<div class='scroll'><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
