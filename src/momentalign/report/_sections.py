"""Shared parts of the sections of an accuracy table: rules, keys, frames, cells, notes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from momentalign._format import join_names, pluralize
from momentalign.algorithms import PLAIN_MODELS, SAFE_WEIGHTS, has_safe_weights
from momentalign.report._names import algorithm_label, list_algorithms
from momentalign.report._table import INCOMPLETE_MARK, MISSING_MARK, ResultCell, ResultRow

RULE_NOTES = {
    "training-domain": "Selected by the training domains: best record by mean accuracy on their out splits.",
    "extrapolated": "Selected on the training domains' out splits: best record by the worst domain's accuracy - "
    "{reach:g} × its distance from the best domain's beyond 2 standard errors.",
    "leave-one-domain-out": "Selected by leave-one-domain-out: best step by mean accuracy on the other domains, "
    "each left out of training in turn.",
    "worst-group": "Selected by the worst group: last record, by the worst group's validation accuracy; the five best "
    "sets of the first trial compete by their mean over trials.",
    "worst-class": "Selected by the worst class, without attributes: last record, by the worst class's validation "
    "accuracy; the five best sets of the first trial compete by their mean over trials.",
    "train-groups": "Selected by the training rows' attributes alone: last record, by the accuracy of their worst "
    "group; the five best sets of the first trial compete by their mean over trials.",
    "oracle": "Selected with labels of the test domain (oracle), which a user does not have: last record, by accuracy "
    "on the test domain's out split.",
}


class SectionRule(NamedTuple):
    """A selection rule and its reach."""

    name: str
    reach: float

    @property
    def title(self) -> str:
        """The rule's name, with its reach where it has one."""
        return f"{self.name} selection" + (f" (reach {self.reach:g})" if self.name == "extrapolated" else "")

    @property
    def note(self) -> str:
        """What the rule selects, in one sentence."""
        return RULE_NOTES[self.name].format(reach=self.reach)


class SectionKey(NamedTuple):
    """Data set, its label, and setting."""

    dataset: str
    label: str
    setting: str

    @property
    def title(self) -> str:
        """Label of the data set, with the setting if it is not fine-tuning."""
        return self.label if self.setting == "finetune" else f"{self.label} ({self.setting})"

    def filter(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Rows of this data set and setting."""
        return frame[(frame["dataset"] == self.dataset) & (frame["setting"] == self.setting)]


class SectionFrames(NamedTuple):
    """Data frames of one data set and setting."""

    runs: pd.DataFrame  # begun or planned
    chosen: pd.DataFrame
    candidates: pd.DataFrame
    set_aside: pd.DataFrame
    diverged: pd.DataFrame


def trial_cell(values: pd.Series, complete: bool, *, ddof: int = 0, decimals: int = 1) -> ResultCell:
    """Mean over trials and its error; one trial has none."""
    count = len(values)
    if not count:
        return ResultCell(None, complete=False, decimals=decimals)
    error = 100 * float(np.std(values, ddof=ddof)) / float(np.sqrt(count)) if count > 1 else None
    return ResultCell(100 * float(np.mean(values)), error, count, complete, decimals=decimals)


def mark_notes(rows: Sequence[ResultRow], full: str, extra: str = "") -> list[str]:
    """Explain the marks in the rows."""
    cells = [cell for row in rows if not row.published for cell in row.cells]
    lines = []
    if any(cell.text == MISSING_MARK for cell in cells):
        lines.append(f"{MISSING_MARK} no finished run that could be selected{extra}.")
    if any(cell.mean is not None and not cell.complete for cell in cells):
        lines.append(f"{INCOMPLETE_MARK} over fewer finished runs than {full}.")
    return lines


def plain_note(rows: Sequence[ResultRow]) -> list[str]:
    """Note on the rows of plain models, if any."""
    labels = [row.label for row in rows if row.algorithm in PLAIN_MODELS]
    return [f"{join_names(labels)}: scikit-learn's, fitted to the same training rows; one set each."] if labels else []


def safe_note(runs: pd.DataFrame) -> list[str]:
    """Note on methods that can only be close to ERM, by the weights of their runs."""
    safe = [
        has_safe_weights(config.get("preset", ""), hparams)
        for config, hparams in zip(runs["config"], runs["hparams"], strict=True)
    ]
    labels = dict.fromkeys(algorithm_label(name.partition("+")[0]) for name in list_algorithms(runs[safe]))
    return [f"{join_names(list(labels))} ran with the safe preset, whose weights are {SAFE_WEIGHTS}."] if labels else []


def diverged_note(diverged: pd.DataFrame) -> list[str]:
    number = diverged["folder"].nunique()  # raw and averaged weights are one run
    note = "records are ignored from the first non-finite loss on."
    return [f"{pluralize(number, 'run')} diverged: {note}"] if number else []


def error_note(trials: int, *, population: bool) -> str:
    if not trials:
        return ""
    if trials < 2:
        return "One trial, so there is no ±."
    kind = (
        "population standard deviation / √trials"
        if population
        else "standard error (standard deviation with ddof 1 / √trials)"
    )
    return f"Mean over {trials} trials ± {kind}."
