"""Which record's weights a run saves: the last one's, or those of the best record by a selection rule."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from momentalign.data import DomainDataset
from momentalign.runs import Record, RunConfig
from momentalign.selection import RECORD_RULES, record_scores
from momentalign.training._accuracy_records import values_by_key

_BY_GROUP = "worst-group"
KEEP_RULES = ("last", *RECORD_RULES, _BY_GROUP)
"""Values of `--keep`."""


def check_keep(rule: str, data: DomainDataset) -> None:
    """Raise ValueError for "worst-group" without groups in validation rows."""
    if rule == _BY_GROUP and (data.group_names is None or "val" not in data.split_names):
        raise ValueError(
            f"'--keep worst-group' needs groups and a validation split, but {data.name} has none. Use --keep "
            "training-domain."
        )


class KeptRecord:
    """Weights of the best record so far, on the host; part of the checkpoint.

    Ties go to the first record. From the record on at which the loss is not finite, nothing is kept.

    Args:
        rule: One of :data:`momentalign.selection.RECORD_RULES`; or "worst-group", by the accuracy of the worst group of
            the validation rows.
        held_out: Domain and split of the training domains' held-out rows.
        rows: Their numbers.
        steps: Number of steps of the run.
        metric: "accuracy", or "averaged_accuracy" where averaged weights are kept.
        reach: Of the rule "extrapolated".
    """

    def __init__(
        self,
        rule: str,
        held_out: Sequence[tuple[str, str]],
        rows: Sequence[int],
        steps: int,
        metric: str = "accuracy",
        reach: float = RunConfig.reach,
    ) -> None:
        self.rule, self.held_out, self.rows, self.steps, self.metric = rule, held_out, rows, steps, metric
        self.reach = reach if rule == "extrapolated" else None
        self.step: int | None = None
        self.score = -math.inf
        self.diverged = False
        self.weights: dict[str, Tensor] = {}

    def record(self, step: int, records: Sequence[Record], weights: Mapping[str, Tensor]) -> None:
        """Keep the weights if the record is better than all before."""
        values = values_by_key(records)
        loss = values.get((None, None, "loss"))
        self.diverged |= loss is None or not math.isfinite(loss)
        score = math.nan if self.diverged else self._score(step, values)
        if score > self.score:  # False for NaN: a record that may not be chosen
            self.step, self.score = step, score
            self.weights = {name: tensor.detach().to("cpu", copy=True) for name, tensor in weights.items()}

    def _score(self, step: int, values: Mapping[tuple[Any, ...], Any]) -> float:
        """Score of a record; NaN where something is missing."""
        if self.rule == _BY_GROUP:
            worst = values.get((None, "val", self.metric.replace("accuracy", "worst_group_accuracy")))
            return math.nan if worst is None else float(worst)
        found = [values.get((*rows, self.metric)) for rows in self.held_out]
        if None in found:
            return math.nan
        options = {} if self.reach is None else {"reach": self.reach}
        accuracies, rows = np.array([found], dtype=float), np.array(self.rows)
        scores = record_scores(self.rule, accuracies, rows, np.array([step]), total_steps=self.steps, **options)
        return float(scores[0])

    def describe(self) -> dict[str, Any]:
        """How the weights were chosen, for `run.json`; step and score are None if no record could be chosen."""
        chosen = {"step": self.step, "keep": self.rule, "score": None if self.step is None else self.score}
        return chosen if self.reach is None else {**chosen, "reach": self.reach}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Weights, and how they were chosen."""
        return self.weights, {**self.describe(), "diverged": self.diverged}

    def load(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Restore :meth:`state`."""
        self.step, self.diverged, self.weights = values["step"], values["diverged"], dict(tensors)
        self.score = -math.inf if values["score"] is None else values["score"]
