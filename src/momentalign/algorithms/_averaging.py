"""Averages of a network's weights over the steps of a run: exponential, from a step on, or over a loss valley."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from momentalign._validation import check_choice
from momentalign.algorithms._weight_average import RunningMean, Tensors, WeightAverage

EMA_DECAY = 0.999
"""Decay of the exponential average in runs of 5,000 steps or more; in shorter ones 1 − 5 / steps."""

N_CONVERGE, N_TOLERANCE, TOLERANCE_RATIO = 3, 6, 0.3
"""SWAD: records without a new minimum until the valley begins, records out of it until it ends, and its height."""


class ExponentialAverage(WeightAverage):
    r"""Exponential average :math:`\sum_i d^{t-i} \theta_i / \sum_i d^{t-i}` from the first step on.

    The decay d is :data:`EMA_DECAY`, or 1 − 5 / steps where that is smaller: at most a fifth of a run is remembered.
    """

    name = "ema"

    def __init__(self, network: nn.Module, steps: int, start: int = 0) -> None:
        super().__init__(network, steps, start)
        self.first = 0
        self.decay = max(0.0, min(EMA_DECAY, 1 - 5 / steps))
        self.number = 0

    @torch.no_grad()
    def add(self) -> None:
        """Move the accumulator towards the weights."""
        torch._foreach_lerp_(*self._total_and_weights(), 1 - self.decay)

    def record(self, step: int, loss: float) -> None:
        """Count the steps."""
        self.number = step + 1

    def mean(self) -> Tensors | None:
        """The accumulator began with zeros: divide by the sum of the weights' shares."""
        return list(torch._foreach_div(self.total, 1 - self.decay**self.number)) if self.number else None

    def _values(self) -> dict[str, Any]:
        return {"number": self.number}

    def _restore(self, groups: Mapping[str, Tensors], values: Mapping[str, Any]) -> None:
        self.number = values["number"]


class SimpleAverage(WeightAverage):
    """Arithmetic mean of the weights after every step from `start` on."""

    name = "sma"

    def __init__(self, network: nn.Module, steps: int, start: int = 0) -> None:
        super().__init__(network, steps, start)
        self.average = RunningMean()

    def record(self, step: int, loss: float) -> None:
        if step >= self.first:
            self.average.add(*self._segment(step))

    def mean(self) -> Tensors | None:
        return self.average.tensors or None

    def _groups(self) -> dict[str, Tensors]:
        return {"average": self.average.tensors} if self.average.tensors else {}

    def _values(self) -> dict[str, Any]:
        return {"number": self.average.number}

    def _restore(self, groups: Mapping[str, Tensors], values: Mapping[str, Any]) -> None:
        self.average = RunningMean(groups.get("average"), values["number"])


class ValleyAverage(WeightAverage):
    """SWAD (Cha et al. 2021): mean of the weights after every step of a valley of the validation loss.

    The validation loss is known at records, so that the valley is made of the segments between them. It begins with the
    segment whose record has the lowest loss of it and the :data:`N_CONVERGE` − 1 following ones. Their mean loss times
    1 + :data:`TOLERANCE_RATIO` is the height. The valley ends with the last record at or below it, before
    :data:`N_TOLERANCE` records in a row are above. Where no valley began, the average at the end of the run is that of
    the last segment, as in the authors' code. The search begins at `start`, so that a penalty that is
    switched on does not end a valley of the loss without it; the authors' begins with the run.
    """

    name = "swad"

    def __init__(self, network: nn.Module, steps: int, start: int = 0) -> None:
        super().__init__(network, steps, start)
        self.recent: list[tuple[Tensors, int, float]] = []  # segments before the valley: mean, number, loss
        self.height: float | None = None
        self.valley = RunningMean()
        self.outside = RunningMean()  # segments above the height that may yet be in the valley
        self.above = 0
        self.fallback: Tensors | None = None

    @property
    def ended(self) -> bool:
        """Whether the valley has ended: nothing changes the average any more."""
        return self.above >= N_TOLERANCE

    def record(self, step: int, loss: float) -> None:
        """Add a segment: look for the beginning of the valley, then for its end."""
        if step < self.first or self.ended:
            return
        segment = (*self._segment(step), loss)
        if self.height is not None:
            self._extend(*segment)
            return
        self.recent = [*self.recent, segment][-N_CONVERGE:]
        losses = [loss for *_, loss in self.recent]
        if len(losses) == N_CONVERGE and all(losses[0] <= other for other in losses) and math.isfinite(sum(losses)):
            self.height = (1 + TOLERANCE_RATIO) * sum(losses) / N_CONVERGE
            for one in self.recent:
                self._extend(*one)
            self.recent = []
        elif step == self.steps - 1:
            self.fallback = segment[0]

    def _extend(self, tensors: Tensors, number: int, loss: float) -> None:
        assert self.height is not None
        if loss <= self.height:
            if self.above:
                self.valley.add(self.outside.tensors, self.outside.number)
                self.outside, self.above = RunningMean(), 0
            self.valley.add(tensors, number)
        else:
            self.above += 1
            if self.ended:
                self.outside = RunningMean()
            else:
                self.outside.add(tensors, number)

    def mean(self) -> Tensors | None:
        """Mean over the valley so far; at the end of a run without one, of the last segment."""
        return self.valley.tensors or self.fallback

    def _groups(self) -> dict[str, Tensors]:
        named = {"valley": self.valley.tensors, "outside": self.outside.tensors}
        named |= {f"recent{k}": tensors for k, (tensors, _, _) in enumerate(self.recent)}
        return {group: tensors for group, tensors in named.items() if tensors}

    def _values(self) -> dict[str, Any]:
        return {
            "recent": [[number, loss if math.isfinite(loss) else None] for _, number, loss in self.recent],
            "height": self.height,
            "numbers": [self.valley.number, self.outside.number],
            "above": self.above,
        }

    def _restore(self, groups: Mapping[str, Tensors], values: Mapping[str, Any]) -> None:
        losses = [(number, math.nan if loss is None else loss) for number, loss in values["recent"]]
        self.recent = [(groups[f"recent{k}"], number, loss) for k, (number, loss) in enumerate(losses)]
        self.height, self.above = values["height"], values["above"]
        self.valley, self.outside = (
            RunningMean(groups.get(group), number)
            for group, number in zip(("valley", "outside"), values["numbers"], strict=True)
        )


_AVERAGES: dict[str, type[WeightAverage]] = {
    kind.name: kind for kind in (ExponentialAverage, SimpleAverage, ValleyAverage)
}

AVERAGES = ("none", *_AVERAGES)
"""Values of `--average`."""


def make_average(name: str, network: nn.Module, steps: int, start: int = 0) -> WeightAverage | None:
    """Make an average by its name; None for "none".

    Args:
        name: One of :data:`AVERAGES`.
        network: The network, on its device.
        steps: Number of steps of the run.
        start: First step of a simple average, and of the search for a valley.
    """
    if check_choice("average", name, AVERAGES) == "none":
        return None
    return _AVERAGES[name](network, steps, start)
