"""A report as plain text."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from momentalign.theory._tables import Matrix, Row, bound_rows, headline, matrices, subtitle, target_rows

if TYPE_CHECKING:
    from momentalign.theory._report import TransferReport

_WIDTH = 100
_NAME = 16


def text(report: "TransferReport") -> str:
    """The whole report, worst pair first."""
    pareto = report.pareto
    parts = [
        _wrapped("Transfer report: " + subtitle(report)),
        _wrapped(headline(report)),
        _wrapped(
            "Centre of the ball: the weakly Pareto-optimal head with the smallest largest gradient norm, "
            f"{pareto.largest_gradient_norm:.4g} (smallest combination of the gradients {pareto.check.norm:.1g})."
        ),
        _domain_table(report),
    ]
    names = [clean(name) for name in report.names]
    for matrix in matrices(report):
        body = [[name, *row] for name, row in zip(names, _cells(matrix), strict=True)]
        parts.append(f"{matrix.title} ({matrix.remark})\n" + _aligned(body, ["", *names]))
    parts.append("Transfer to a target in the convex hull of the domains, at most\n" + _listed(bound_rows(report)))
    if report.hull is not None:
        mixture = ", ".join(f"{name} {w:.2f}" for name, w in zip(names, report.hull.weights, strict=True))
        parts.append(_wrapped(f"Hull check: {report.hull.sentence} Closest mixture: {mixture}."))
    if report.target is not None:
        parts.append("The labelled target at the centre of the ball\n" + _listed(target_rows(report)))
    if report.notes:
        parts.append("Notes\n" + "\n".join(_wrapped(f"- {note}", "  ") for note in report.notes))
    return "\n\n".join(parts)


def clean(name: str) -> str:
    """A name for a terminal: no control characters, not too long."""
    shown = "".join(letter if letter.isprintable() else "�" for letter in name)
    return shown if len(shown) <= _NAME else shown[: _NAME - 1] + "…"


def _domain_table(report: "TransferReport") -> str:
    header = ["domain", "rows", "loss", "its best", "gradient norm", "weight"]
    body = [
        [clean(name), str(rows), *map(_number, numbers)]
        for name, rows, *numbers in zip(
            report.names,
            report.losses.counts.tolist(),
            report.values,
            report.measures.minima,
            report.pareto.gradient_norms,
            report.pareto.weights,
            strict=True,
        )
    ]
    return "The domains at the centre\n" + _aligned(body, header)


def _cells(matrix: Matrix) -> list[list[str]]:
    """Entries as text, with their interval where there is one; the diagonal says nothing and stays empty."""
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
    """Columns under their headers, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
    lines = []
    for row in [header, *body]:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def _listed(rows: list[Row]) -> str:
    width = max(len(row.name) for row in rows)
    return "\n".join(f"  {row.name.ljust(width)}  {_number(row.value):>9}  {row.remark}" for row in rows)


def _wrapped(sentence: str, indent: str = "") -> str:
    plain = "".join(letter if letter.isprintable() else "�" for letter in sentence)
    return textwrap.fill(plain, _WIDTH, subsequent_indent=indent, break_long_words=False)
