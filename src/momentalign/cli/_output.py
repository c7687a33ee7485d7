"""Output shared by several commands: console, progress bars, warnings, interrupts, tables of accuracy."""

import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, ConsoleOptions
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from momentalign._format import format_duration, join_names, printable
from momentalign._machine import is_ours
from momentalign._signals import exit_code

if TYPE_CHECKING:
    from momentalign._types import ReportProgress

RESUME_NOTE = "Interrupted. Run the same command again to resume."
_LINE_SECONDS = 30.0
_LARGE_DROP = 0.2
"""Drop of training-domain accuracy at which a note is printed."""


class _PlainConsole(Console):
    """A console for untrusted text: control characters are escaped."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Text in one line without control characters; also called to measure the cells of a table."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments of anything else, for instance a `Text`, without control characters but line breaks."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text, keep="\n"))


def make_console(*, stderr: bool = False) -> Console:
    """A console for untrusted text: no markup, emoji, highlighting or wrapping; control characters are escaped.

    A string is printed as one line, its line breaks escaped; :func:`print_block` prints several lines.
    """
    return _PlainConsole(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


def terminal_width(console: Console) -> int | None:
    """Width of the terminal, or what `COLUMNS` says; None for a file or a pipe."""
    return console.width if console.is_terminal or "COLUMNS" in os.environ else None


def print_block(console: Console, text: str) -> None:
    """Print a text of several lines."""
    console.print(*text.split("\n"), sep="\n")


def print_lines(console: Console, lines: Iterable[str | None]) -> None:
    """Print each line that is not None."""
    for line in lines:
        if line is not None:
            console.print(line)


def print_line(text: str) -> None:
    """Print a line from any process."""
    make_console().print(text)


def names_table(*columns: str) -> Table:
    """A table without borders that folds long names."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def numbers_table(title: str, names: str, *columns: str) -> Table:
    """A table with a first column `names` and right-aligned columns of numbers."""
    table = Table(title=title, title_justify="left")
    table.add_column(names)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def format_percent(value: float | None) -> str:
    """A share in percent, a dash if it is not known."""
    return "–" if value is None or math.isnan(value) else f"{100 * value:.1f}"


def description_column() -> TextColumn:
    """Description of a progress bar, without markup."""
    return TextColumn("{task.description}", markup=False)


def progress_bar(console: Console, *, percent: bool = False, keep: bool = False) -> Progress:
    """A progress bar with the time left, as a count or in percent; removed at the end unless `keep` is True."""
    done: ProgressColumn = TaskProgressColumn() if percent else MofNCompleteColumn()
    columns = (description_column(), BarColumn(), done, TimeRemainingColumn())
    return Progress(*columns, console=console, transient=not keep, disable=not keep and not console.is_terminal)


class ProgressLines:
    """Progress lines where the output is not a terminal: one every 30 seconds, with the time left."""

    def __init__(self, console: Console, wait: float | None = None) -> None:
        self._console = console
        self._start = time.monotonic()
        self._next = self._start + (_LINE_SECONDS if wait is None else wait)
        self._first: float | None = None

    def update(self, text: str, share: float) -> None:
        """Print what is being done and the time left, if it is time for a line."""
        now = time.monotonic()
        self._first = share if self._first is None else self._first
        if self._console.is_terminal or now < self._next or not self._first < share < 1:
            return
        self._next = now + _LINE_SECONDS
        left = (now - self._start) * (1 - share) / (share - self._first)
        self._console.print(f"{text}: {share:.0%} done, about {format_duration(left)} left.")


@contextmanager
def share_bar(console: Console) -> "Iterator[ReportProgress]":
    """A progress bar, or lines, updated with the current part and the finished share."""
    lines = ProgressLines(console)
    with progress_bar(console, percent=True) as bar:
        task = bar.add_task("", total=1.0)

        def update(part: str, share: float) -> None:
            bar.update(task, description=part, completed=share)
            lines.update(part, share)

        yield update


class TrainingBar:
    """Progress bar of a run; it can be sent to another process and starts where it is first called."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._lines: ProgressLines | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_progress": None, "_lines": None}

    def __call__(self, at: Any) -> None:
        """Show the progress of a run, a `momentalign.training.Progress`."""
        if self._progress is None or self._lines is None:
            self._progress = progress_bar(make_console(), keep=True)
            self._lines = ProgressLines(self._progress.console)
            self._progress.add_task("")
            self._progress.start()
        values = (("loss", at.loss, ".4g"), ("accuracy", at.accuracy, ".1%"))
        parts = [f"{name} {value:{form}}" for name, value, form in values if value is not None]
        if at.evaluated is not None:
            parts.append(f"evaluating {at.evaluated:.0%}" if at.evaluated else "evaluating …")
        text = ", ".join(parts)
        self._progress.update(self._progress.task_ids[0], completed=at.done, total=at.steps, description=text)
        self._lines.update(f"Step {at.done} of {at.steps}", at.done / at.steps)
        if at.done == at.steps:
            self.close()

    def close(self) -> None:
        """Stop the bar and leave it on the screen."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


@contextmanager
def print_warnings(console: Console) -> Iterator[None]:
    """Print this package's warnings as lines, once each, and hide other warnings."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], filename: str, *_: object, **__: object) -> None:
        text = str(message)
        if is_ours(filename) and text not in shown:
            shown.add(text)
            console.print(f"Note: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


@contextmanager
def exit_on_interrupt(console: Console, message: str | Callable[[], str]) -> Iterator[None]:
    """On an interrupt of the block, print a message and exit with code 130, or 143 after SIGTERM."""
    try:
        yield
    except KeyboardInterrupt as error:
        console.print(message if isinstance(message, str) else message())
        raise typer.Exit(exit_code(error)) from None


def score_table(records: Sequence[Any], test_domains: Sequence[str]) -> Table:
    """Table of accuracy by domain and split from the records of one step, and the measures over groups."""
    from momentalign._worst_group import GROUP_MEASURES

    accuracy = {(r["domain"], r["split"]): r["value"] for r in records if r["metric"] == "accuracy"}
    measures = {
        (r["metric"], r["split"]): r["value"]
        for r in records
        if r["metric"] in GROUP_MEASURES and r["metric"] != "accuracy"
    }
    splits = list(dict.fromkeys(split for _, split in accuracy if split is not None))
    table = numbers_table("accuracy, %" + ("; * was not trained on" if test_domains else ""), "domain", *splits)
    for domain in dict.fromkeys(domain for domain, _ in accuracy):
        name = "all" if domain is None else f"{domain} *" if domain in test_domains else domain
        table.add_row(name, *(format_percent(accuracy.get((domain, split))) for split in splits))
    for metric in dict.fromkeys(metric for metric, _ in measures):
        table.add_row(GROUP_MEASURES[metric], *(format_percent(measures.get((metric, split))) for split in splits))
    return table


def splits_note(records: Sequence[Any], test_domains: Sequence[str]) -> str | None:
    """Explain the columns of :func:`score_table` for a run's own splits, else None."""
    if not any(record["metric"] == "accuracy" and record["split"] == "in" for record in records):
        return None
    trained = "the rows trained on, in domains without *" if test_domains else "the rows trained on"
    return f"in: {trained}. out: held-out rows."


def divergence_note(records: Sequence[Any], hparams: Mapping[str, Any]) -> str | None:
    """Advice for a run whose loss became NaN or infinite, else None; records hold None for such values."""
    bad = [
        record["step"]
        for record in records
        if record["metric"] == "loss" and (record["value"] is None or not math.isfinite(record["value"]))
    ]
    if not bad:
        return None
    weights = [name for name, value in hparams.items() if name.split("_")[-1] == "weight" and value]
    lower = f"lr, or {join_names(weights)}," if weights else "lr"
    clip = "" if hparams.get("clip", 1.0) else "; --set clip=1 limits the gradient"
    return (
        f"The run diverged: its loss was not finite by step {min(bad)}, and the accuracies below are meaningless. "
        f"Lower {lower} with --set{clip}."
    )


def annealing_note(records: Sequence[Any], test_domains: Sequence[str], hparams: Mapping[str, Any]) -> str | None:
    """Advice if accuracy on the training domains dropped once the penalty was switched on, else None."""
    means: dict[int, list[float]] = {}
    for record in records:
        held_out = record["split"] in ("out", "val") and record["domain"] not in (None, *test_domains)
        if held_out and record["metric"] == "accuracy":
            means.setdefault(record["step"], []).append(record["value"])
    before = [step for step in means if step < hparams.get("anneal_steps", 0)]
    if not before or max(before) == max(means):
        return None
    earlier, final = (sum(means[step]) / len(means[step]) for step in (max(before), max(means)))
    if earlier - final < _LARGE_DROP:
        return None
    scaling = ", or --set scaling=relative with weights near 1" if "scaling" in hparams else ""
    return (
        f"Accuracy on held-out rows of the training domains fell from {format_percent(earlier)}% at step "
        f"{max(before)}, before the penalty was switched on, to {format_percent(final)}% at the end. If that is too "
        f"much, try smaller weights with --set{scaling}."
    )
