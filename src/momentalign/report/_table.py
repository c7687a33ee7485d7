"""A table of results, written as text, Markdown, LaTeX or CSV."""

import io
import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd

from momentalign._csv import csv_text
from momentalign._format import printable, slug
from momentalign._worst_group import GROUP_MEASURES
from momentalign.report._answer import describe
from momentalign.report._comparison import Comparison
from momentalign.report._escape import escape_latex, escape_markdown

MISSING_MARK = "–"
INCOMPLETE_MARK = "*"
FOOTNOTE_MARK = "†"
_MARKS = (INCOMPLETE_MARK, FOOTNOTE_MARK)
_PAD = "\ue000"  # rich strips trailing spaces; not printable, so no name contains it

_BOLD = "Bold: the best, and all that differ from it by no more than the ± of the two."
_NARROW = 5  # columns of numbers that fit beside each other on a page
_SHRINK = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
_ERRORS = (GROUP_MEASURES["calibration_error"],)  # columns whose smallest number is the best


@dataclass(frozen=True)
class ResultCell:
    """One number of a table, in percent.

    Args:
        mean: None if there is no number.
        error: Shown after the ±, or None.
        trials: Number of trials averaged; 0 for published numbers.
        complete: Whether no run is missing from the average.
        expected: Whether an empty cell is marked as missing.
        mark: Footnote mark, or empty.
        decimals: Of mean and error.
        low: Lower end of an interval, or None. A cell without mean shows the interval.
        high: Its upper end.
    """

    mean: float | None
    error: float | None = None
    trials: int = 0
    complete: bool = True
    expected: bool = True
    mark: str = ""
    decimals: int = 1
    low: float | None = None
    high: float | None = None

    @property
    def text(self) -> str:
        """The number with its error and marks, or the interval; unescaped."""
        if self.mean is None and self.low is not None and self.high is not None:
            return f"{self.low:.{self.decimals}f} to {self.high:.{self.decimals}f}"
        if self.mean is None:
            return MISSING_MARK if self.expected else ""
        number = f"{self.mean:.{self.decimals}f}"
        if self.error is not None:
            number += f" ± {self.error:.{self.decimals}f}"
        return number + ("" if self.complete else INCOMPLETE_MARK) + self.mark


@dataclass(frozen=True)
class ResultRow:
    """One algorithm: our numbers, or the published ones.

    Args:
        algorithm: Name on the command line.
        label: Name in print.
        published: Whether these are the paper's numbers.
        cells: One per column.
    """

    algorithm: str
    label: str
    published: bool
    cells: tuple[ResultCell, ...]


@dataclass(frozen=True)
class TableSection:
    """Algorithms in rows; in columns the domains of one data set, or several data sets.

    Args:
        dataset: Name or path of the data set; empty for the section over data sets.
        label: Short unique name of the data set.
        setting: "finetune" or "probe".
        title: One line.
        notes: What the numbers are, how they were selected, what is missing; a sentence or two each.
        columns: Full names of the columns.
        heads: Column headers.
        rows: Ours, each followed by the published one if there is one.
        comparison: Of the rows with ERM; None for one method, and over data sets.
    """

    dataset: str
    label: str
    setting: str
    title: str
    notes: tuple[str, ...]
    columns: tuple[str, ...]
    heads: tuple[str, ...]
    rows: tuple[ResultRow, ...]
    comparison: Comparison | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The notes and the answer, a line each."""
        return (*self.notes, *describe(self.comparison))

    def best(self, column: int) -> tuple[ResultCell, ...]:
        r"""The best of our numbers in a column, and those within its uncertainty; none if there is a single number.

        A difference is within uncertainty up to the ± of the two, :math:`\sqrt{a^2 + b^2}`, or if rounding hides it.
        """
        cells = [row.cells[column] for row in self.rows if not row.published]
        known = [(cell.mean, cell) for cell in cells if cell.mean is not None]
        if len(known) < 2:
            return ()
        choose = min if self.columns[column] in _ERRORS else max
        mean, top = choose(known, key=lambda pair: pair[0])
        return tuple(
            cell
            for value, cell in known
            if abs(value - mean) <= math.hypot(cell.error or 0.0, top.error or 0.0)
            or f"{value:.{cell.decimals}f}" == f"{mean:.{top.decimals}f}"
        )


@dataclass(frozen=True)
class ResultTable:
    """Results under one selection rule.

    Args:
        rule: Name of the rule.
        sections: One per data set, and one over data sets if there are several.
    """

    rule: str
    sections: tuple[TableSection, ...]

    def to_text(self, width: int | None = None) -> str:
        """Aligned columns, never wrapped or truncated: those that do not fit in `width` characters stand below.

        The notes are wrapped.
        """
        return "\n".join(_text(section, width) for section in self.sections)

    def to_markdown(self) -> str:
        """Pipe tables; names are escaped, so they cannot add markup or HTML."""
        return "\n".join(map(_markdown, self.sections))

    def to_latex(self) -> str:
        r"""Tables with caption and label: the document needs ``\usepackage{booktabs,graphicx}``.

        A table of many columns that is wider than the text is scaled down. The best number of a column is bold, as are
        those within its uncertainty.
        """
        return "\n".join(_latex(section, self.rule) for section in self.sections)

    def to_csv(self) -> str:
        """One line per number, unrounded: the rows of :meth:`to_frame`."""
        frame = self.to_frame()
        cells = (
            [printable(value) if isinstance(value, str) else value for value in line]
            for line in frame.itertuples(index=False, name=None)
        )
        return csv_text([frame.columns, *cells])

    def to_frame(self) -> pd.DataFrame:
        """One row per number.

        Returns:
            rule, dataset (its label; empty: over data sets), setting, algorithm, column, mean, error, trials, complete,
            published, published_error, low and high (the ends of the worst group's interval); numbers in percent,
            missing ones NaN. The column that shows the interval is left out.
        """
        lines = [
            (self.rule, section.label, section.setting, row.algorithm, column, cell.mean, cell.error, cell.trials,
             cell.complete and cell.mean is not None, theirs.mean, theirs.error, cell.low, cell.high)
            for section in self.sections
            for row, column, cell, theirs in paired_cells(section)
            if cell.mean is not None or cell.low is None  # an interval is in the line of its mean
        ]  # fmt: skip
        columns = ["rule", "dataset", "setting", "algorithm", "column", "mean", "error", "trials", "complete"]
        numbers = ["mean", "error", "published", "published_error", "low", "high"]
        frame = pd.DataFrame(lines, columns=[*columns, *numbers[2:]])
        return frame.astype({**dict.fromkeys(numbers, float), "trials": int, "complete": bool})

    def __str__(self) -> str:
        return self.to_text()


def _text(section: TableSection, width: int | None) -> str:
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    labels = [_label(row) for row in section.rows]
    columns = []
    for index, head in enumerate(section.heads):
        texts = [row.cells[index].text for row in section.rows]
        # Pad unmarked numbers, so that the digits line up and marks hang to the right.
        marked = any(text.endswith(_MARKS) for text in texts)
        texts = [text + _PAD * (marked and not text.endswith(_MARKS)) for text in texts]
        columns.append(("\n".join(_head_lines(head)), texts))
    sizes = [max(map(cell_len, (*head.split("\n"), *texts))) for head, texts in columns]
    file = io.StringIO()
    for block in _blocks(max(map(cell_len, labels), default=0), sizes, width):
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column(no_wrap=True)
        for head, _ in columns[block]:
            table.add_column(Text(head), justify="right", vertical="bottom", no_wrap=True)
        for cells in zip(labels, *(texts for _, texts in columns[block]), strict=True):
            table.add_row(*map(Text, cells))
        Console(file=file, width=100_000, color_system=None, legacy_windows=False).print(table, "", sep="\n")
    lines = [line.replace(_PAD, " ").rstrip() for line in file.getvalue().splitlines()]
    notes = [printable(line) for line in section.words]
    if width is not None:
        notes = [textwrap.fill(line, width, break_on_hyphens=False, subsequent_indent="  ") for line in notes]
    return "\n".join([printable(section.title), "", *lines, *notes, ""])


def _blocks(label: int, sizes: Sequence[int], width: int | None) -> list[slice]:
    """The columns that fit beside the labels in `width` characters, block by block."""
    starts, used = [0], label
    for index, size in enumerate(sizes):
        used += 2 + size
        if width is not None and used > width and index > starts[-1]:
            starts, used = [*starts, index], label + 2 + size
    return [slice(*ends) for ends in pairwise([*starts, len(sizes)])]


def _markdown(section: TableSection) -> str:
    lines = [f"**{escape_markdown(section.title)}**", ""]
    lines.append("| | " + " | ".join(map(escape_markdown, section.heads)) + " |")
    lines.append("|---|" + "--:|" * len(section.heads))
    for row in section.rows:
        label = escape_markdown(_label(row).strip())
        cells = [escape_markdown(cell.text) for cell in row.cells]
        lines.append(f"| {f'*{label}*' if row.published else label} | " + " | ".join(cells) + " |")
    notes = map(escape_markdown, section.words)
    return "\n".join([*lines, "", *(line for note in notes for line in (note, ""))])


def _latex(section: TableSection, rule: str) -> str:
    best = [section.best(index) for index in range(len(section.columns))]
    notes = [_BOLD, *section.words] if any(best) else section.words
    wide = len(section.heads) > _NARROW
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_latex(' '.join((f'{section.title}.', *notes)))}}}",
        rf"\label{{{_latex_label(section, rule)}}}",
        *([r"\setlength{\tabcolsep}{3pt}", _SHRINK] if wide else []),
        rf"\begin{{tabular}}{{l{'r' * len(section.heads)}}}",
        r"\toprule",
        " & ".join(["", *map(_latex_head, section.heads)]).lstrip() + r" \\",
        r"\midrule",
    ]
    # Marks hang to the right of digits that line up, as in _text.
    marks = [{row.cells[index].text[-1:] for row in section.rows} & set(_MARKS) for index in range(len(best))]
    for row in section.rows:
        label = escape_latex(_label(row).strip())
        cells = [rf"\quad\textit{{{label}}}" if row.published else label]
        for cell, top, used in zip(row.cells, best, marks, strict=True):
            text = escape_latex(cell.text)
            text = rf"\textbf{{{text}}}" if cell in top and not row.published else text
            pad = cell.text and not cell.text.endswith(_MARKS)
            cells.append(text + (rf"\phantom{{{escape_latex(max(used))}}}" if used and pad else ""))
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}" + "}" * wide, r"\end{table}", ""])


def _latex_head(head: str) -> str:
    lines = [escape_latex(line) for line in _head_lines(head)]
    return r"\shortstack[r]{" + r"\\".join(lines) + "}" if len(lines) > 1 else lines[0]


def _head_lines(head: str) -> list[str]:
    """Lines of a column header: names of group measures are wrapped."""
    title = printable(head)
    return textwrap.wrap(title, 12, break_on_hyphens=False) if head in GROUP_MEASURES.values() else [title]


def _latex_label(section: TableSection, rule: str) -> str:
    r"""A name for ``\ref``, by data set, setting if it is not fine-tuning, and rule."""
    setting = "" if section.setting == "finetune" else section.setting
    return f"tab:{'-'.join(filter(None, map(slug, (section.label or 'all', setting, rule))))}"


def paired_cells(section: TableSection) -> Iterator[tuple[ResultRow, str, ResultCell, ResultCell]]:
    """Row and column of each of our cells, the cell and the published one, which may be empty."""
    published = {row.algorithm: row.cells for row in section.rows if row.published}
    empty = (ResultCell(None),) * len(section.columns)
    for row in section.rows:
        if not row.published:
            paper = published.get(row.algorithm, empty)
            for column, cell, theirs in zip(section.columns, row.cells, paper, strict=True):
                yield row, column, cell, theirs


def _label(row: ResultRow) -> str:
    return "  published" if row.published else printable(row.label)
