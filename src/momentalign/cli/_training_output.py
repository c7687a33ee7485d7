"""What `train` and `evaluate` print: progress, notes, tables of accuracy."""

import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from momentalign._format import join_names
from momentalign._machine import is_ours

_MUCH = 0.2
"""Accuracy on the training domains that a penalty may cost before something is said."""


class Bar:
    """A progress bar that any process can show: it comes into being where it is first called."""

    def __init__(self) -> None:
        self.progress: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"progress": None}

    def __call__(self, at: Any) -> None:
        """Show where a run is.

        Args:
            at: A `momentalign.training.Progress`.
        """
        if self.progress is None:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self.progress = Progress(*columns, console=Console(file=sys.stdout))
            self.progress.add_task("")
            self.progress.start()
        known = (("loss", at.loss, ".4g"), ("accuracy", at.accuracy, ".1%"))
        said = [f"{name} {value:{form}}" for name, value, form in known if value is not None]
        if at.evaluated is not None:
            said.append(f"evaluating {at.evaluated:.0%}" if at.evaluated else "evaluating …")
        text = ", ".join(said)
        self.progress.update(self.progress.task_ids[0], completed=at.done, total=at.steps, description=text)
        if at.done == at.steps:
            self.close()

    def close(self) -> None:
        """Leave the line as it is."""
        if self.progress is not None:
            self.progress.stop()
            self.progress = None


class Say:
    """Prints sentences, in whatever process."""

    def __call__(self, sentence: str) -> None:
        """Print one sentence."""
        Console(highlight=False, markup=False, soft_wrap=True).print(sentence)


class Notes:
    """Shows this package's warnings as plain lines, once each, and no others.

    Args:
        console: Where to.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.shown: set[str] = set()
        self.caught = warnings.catch_warnings()

    def __enter__(self) -> None:
        self.caught.__enter__()
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = self._show

    def __exit__(self, *details: Any) -> None:
        self.caught.__exit__(*details)

    def _show(self, message: Warning | str, category: type[Warning], filename: str, *_: object, **__: object) -> None:
        text = str(message)
        if is_ours(filename) and text not in self.shown:
            self.shown.add(text)
            self.console.print(f"Note: {text}")


def accuracy_table(records: Sequence[Any], test_domains: Sequence[str]) -> Table:
    """Accuracy of each domain, a column for each split; where there are groups, of the worst group as well.

    Args:
        records: Records of one step.
        test_domains: Domains to mark.

    Returns:
        The table.
    """
    found = {(r["domain"], r["split"]): r["value"] for r in records if r["metric"] == "accuracy"}
    worst = {r["split"]: r["value"] for r in records if r["metric"] == "worst_group_accuracy"}
    splits = list(dict.fromkeys(split for _, split in found if split is not None))
    table = Table(title="accuracy, %" + ("; * was not trained on" if test_domains else ""), title_justify="left")
    table.add_column("domain")
    for split in splits:
        table.add_column(split, justify="right")
    for domain in dict.fromkeys(domain for domain, _ in found):
        name = "all" if domain is None else f"{domain} *" if domain in test_domains else domain
        table.add_row(name, *(_percent(found.get((domain, split))) for split in splits))
    if worst:
        table.add_row("worst group", *(_percent(worst.get(split)) for split in splits))
    return table


def said_of_divergence(records: Sequence[Any], hparams: Mapping[str, Any]) -> str | None:
    """That a run's accuracies mean nothing, where its loss stopped being a number; to be said above them.

    Args:
        records: All of a run; what is not finite may be None, as it is written.
        hparams: Its hyper-parameters.

    Returns:
        Two sentences, or None.
    """
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
        f"The loss stopped being a number by step {min(bad)}: the accuracies below are of weights that are not "
        f"numbers. Lower {lower} with --set{clip}."
    )


def said_of_annealing(records: Sequence[Any], test_domains: Sequence[str], hparams: Mapping[str, Any]) -> str | None:
    """What happened to the training domains when a penalty set in, where it cost them much.

    Args:
        records: All of a run.
        test_domains: Domains that were not trained on.
        hparams: Its hyper-parameters.

    Returns:
        A sentence or two, or None.
    """
    means: dict[int, list[float]] = {}
    for record in records:
        held_out = record["split"] in ("out", "val") and record["domain"] not in (None, *test_domains)
        if held_out and record["metric"] == "accuracy":
            means.setdefault(record["step"], []).append(record["value"])
    before = [step for step in means if step < hparams.get("anneal_steps", 0)]
    if not before or max(before) == max(means):
        return None
    then, now = (sum(means[step]) / len(means[step]) for step in (max(before), max(means)))
    if then - now < _MUCH:
        return None
    scaling = ", or --set scaling=relative with weights near 1" if "scaling" in hparams else ""
    return (
        f"Held-out rows of the training domains: {_percent(then)}% at step {max(before)}, before the penalty set in, "
        f"{_percent(now)}% at the end. Where that is more than you mean to give up, try smaller weights with "
        f"--set{scaling}."
    )


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"
