"""A table of results and the ways to write it down."""

import csv
import io
from dataclasses import dataclass

import pandas as pd

from momentalign._format import printable
from momentalign.report._escape import escape_latex, escape_markdown

MISSING = "–"
INCOMPLETE = "*"


@dataclass(frozen=True)
class Cell:
    """A number with what it is over.

    Args:
        mean: In percent; None if there is none.
        error: What follows the ±, or None if nothing does.
        trials: How many trials it is over; 0 for published numbers.
        complete: Whether all runs that it should be over are there.
        expected: Whether the cell should have a number: an empty one is marked as missing then.
        mark: Sign of a footnote, or empty.
        decimals: Of mean and error.
    """

    mean: float | None
    error: float | None = None
    trials: int = 0
    complete: bool = True
    expected: bool = True
    mark: str = ""
    decimals: int = 1

    @property
    def text(self) -> str:
        """As it is shown, but for the escapes of a format."""
        if self.mean is None:
            return MISSING if self.expected else ""
        number = f"{self.mean:.{self.decimals}f}"
        if self.error is not None:
            number += f" ± {self.error:.{self.decimals}f}"
        return number + ("" if self.complete else INCOMPLETE) + self.mark


@dataclass(frozen=True)
class Row:
    """One algorithm, ours or as published.

    Args:
        algorithm: Its name on the command line.
        label: Its name in print.
        published: Whether these are the paper's numbers.
        cells: One a column.
    """

    algorithm: str
    label: str
    published: bool
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Section:
    """A table proper: algorithms in rows, and in columns the domains of one data set, or data sets.

    Args:
        dataset: Name or path of the data set; empty for the section over data sets.
        label: What it is called here, where no two are called the same.
        setting: "finetune" or "probe".
        title: One line.
        notes: What the numbers are, how they were selected, what is missing: a sentence or two each.
        columns: Names of the columns, in full.
        heads: What stands above the columns.
        rows: Ours, each followed by what was published.
    """

    dataset: str
    label: str
    setting: str
    title: str
    notes: tuple[str, ...]
    columns: tuple[str, ...]
    heads: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """Results under one selection rule.

    Args:
        rule: Name of the rule.
        sections: One a data set, and one over them where there are several.
    """

    rule: str
    sections: tuple[Section, ...]

    def to_text(self) -> str:
        """Aligned columns, for a terminal."""
        return "\n".join(_text(section) for section in self.sections)

    def to_markdown(self) -> str:
        """Pipe tables; names cannot add markup or HTML."""
        return "\n".join(_markdown(section) for section in self.sections)

    def to_latex(self) -> str:
        r"""Tables for booktabs: the document needs ``\usepackage{booktabs}``."""
        return "\n".join(_latex(section) for section in self.sections)

    def to_csv(self) -> str:
        """One line a number, unrounded: what :meth:`to_frame` holds."""
        text = io.StringIO()
        frame = self.to_frame()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(frame.columns)
        for line in frame.itertuples(index=False, name=None):
            writer.writerow(["" if value is None or value != value else _plain(value) for value in line])
        return text.getvalue()

    def to_frame(self) -> pd.DataFrame:
        """One row a number.

        Returns:
            rule, dataset (as tables call it; empty: over data sets), setting, algorithm, column, mean, error, trials,
            complete, published, published_error; numbers in percent, missing ones NaN.
        """
        lines: list[dict[str, object]] = []
        for section in self.sections:
            lines += _long(section, self.rule)
        columns = ["rule", "dataset", "setting", "algorithm", "column", "mean", "error", "trials", "complete"]
        frame = pd.DataFrame(lines, columns=[*columns, "published", "published_error"])
        numbers = ["mean", "error", "published", "published_error"]
        return frame.astype({**dict.fromkeys(numbers, float), "trials": int, "complete": bool})

    def __str__(self) -> str:
        return self.to_text()


def _text(section: Section) -> str:
    head = ["", *(printable(name) for name in section.heads)]
    body = [[_label(row), *(cell.text for cell in row.cells)] for row in section.rows]
    # Marks hang to the right of their number, so that the numbers stay in line.
    marked = [any(line[i].endswith(("*", "†")) for line in body) for i in range(len(head))]
    for line in body:
        for i, hangs in enumerate(marked):
            if hangs and i and not line[i].endswith(("*", "†")):
                line[i] += " "
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    lines = [printable(section.title), ""]
    for line in [head, *body]:
        cells = [
            line[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)),
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(3, "─" * (sum(widths) + 2 * len(widths) - 2))
    return "\n".join([*lines, "", *(printable(note) for note in section.notes), ""])


def _markdown(section: Section) -> str:
    lines = [f"**{escape_markdown(section.title)}**", ""]
    lines.append("| | " + " | ".join(escape_markdown(name) for name in section.heads) + " |")
    lines.append("|---|" + "--:|" * len(section.heads))
    for row in section.rows:
        label = escape_markdown(_label(row).strip())
        cells = [escape_markdown(cell.text) for cell in row.cells]
        lines.append(f"| {f'*{label}*' if row.published else label} | " + " | ".join(cells) + " |")
    notes = [escape_markdown(note) for note in section.notes]
    return "\n".join([*lines, "", *(line for note in notes for line in (note, ""))])


def _latex(section: Section) -> str:
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_latex(' '.join((f'{section.title}.', *section.notes)))}}}",
        rf"\begin{{tabular}}{{l{'r' * len(section.heads)}}}",
        r"\toprule",
        " & ".join(["", *(escape_latex(name) for name in section.heads)]).lstrip() + r" \\",
        r"\midrule",
    ]
    for row in section.rows:
        label = escape_latex(_label(row).strip())
        cells = [rf"\quad\textit{{{label}}}" if row.published else label]
        cells += [escape_latex(cell.text) for cell in row.cells]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _label(row: Row) -> str:
    return "  published" if row.published else printable(row.label)


def _long(section: Section, rule: str) -> list[dict[str, object]]:
    published = {row.algorithm: row.cells for row in section.rows if row.published}
    lines: list[dict[str, object]] = []
    for row in section.rows:
        if row.published:
            continue
        for i, (column, cell) in enumerate(zip(section.columns, row.cells, strict=True)):
            theirs = published[row.algorithm][i] if row.algorithm in published else Cell(None)
            lines.append(
                {
                    "rule": rule,
                    "dataset": section.label,
                    "setting": section.setting,
                    "algorithm": row.algorithm,
                    "column": column,
                    "mean": cell.mean,
                    "error": cell.error,
                    "trials": cell.trials,
                    "complete": cell.complete and cell.mean is not None,
                    "published": theirs.mean,
                    "published_error": theirs.error,
                }
            )
    return lines


def _plain(value: object) -> object:
    return printable(value) if isinstance(value, str) else value
