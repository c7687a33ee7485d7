"""Averages of a network's weights over the steps of a run: exponential, from a step on, or over a loss valley.

A step adds the present weights to an accumulator: one operation on lists of tensors, without reading anything back, so
that it can be part of a captured step. Everything else happens at records, on the host.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from momentalign._validation import check_choice

Tensors = list[Tensor]

EMA_DECAY = 0.999
"""Decay of the exponential average in runs of 5,000 steps or more; in shorter ones 1 − 5 / steps."""

N_CONVERGE, N_TOLERANCE, TOLERANCE_RATIO = 3, 6, 0.3
"""SWAD: records without a new minimum until the valley begins, records out of it until it ends, and its height."""


class WeightAverage(ABC):
    """Average of a network's weights over steps, in float32 at least.

    Trained parameters and floating-point buffers, such as the statistics of batch normalisation, are averaged; frozen
    parameters and integer buffers are the network's. A loop calls :meth:`before` and :meth:`add` around every step
    and :meth:`record` at every record. The state is `total`, lists of tensors in `kept`, and plain `values`.

    Args:
        network: The network, on its device; its tensors are changed in place only.
        steps: Number of steps of the run.
        start: First step of a simple average, and of the search for a valley.
    """

    def __init__(self, network: nn.Module, steps: int, start: int = 0) -> None:
        moving = {name: tensor.detach() for name, tensor in network.named_parameters() if tensor.requires_grad}
        moving |= {name: tensor for name, tensor in network.named_buffers() if tensor.is_floating_point()}
        self.names, self.live = list(moving), list(moving.values())
        self.total = [torch.zeros_like(t, dtype=torch.promote_types(t.dtype, torch.float32)) for t in self.live]
        self.steps = steps
        self.kept: dict[str, Tensors] = {}
        self.values: dict[str, Any] = {"first": start}  # first of the steps that are accumulated

    @torch.no_grad()
    def add(self) -> None:
        """Accumulate the weights after a step; can be captured in a CUDA graph."""
        torch._foreach_add_(self.total, self._weights())

    def before(self, step: int) -> None:
        """Reset the accumulator before the first step that counts."""
        if step == self.values["first"]:
            torch._foreach_zero_(self.total)

    @abstractmethod
    def record(self, step: int, loss: float) -> None:
        """Add the steps since the last record; `loss` is the validation loss of the raw weights."""

    def mean(self) -> Tensors | None:
        """The average at the last record, or None before there is one."""
        return self.kept.get("average")

    @contextmanager
    def applied(self) -> Iterator[bool]:
        """Give the network the averaged weights, and its own back at the end; yields whether there is an average."""
        mean = self.mean()
        if mean is None:
            yield False
            return
        raw = [tensor.clone() for tensor in self.live]
        torch._foreach_copy_(self.live, mean)
        try:
            yield True
        finally:
            torch._foreach_copy_(self.live, raw)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors by name, and plain values: all that :meth:`load` needs."""
        groups = {"total": self.total, **self.kept}
        tensors = {f"{group}.{name}": t for group in groups for name, t in zip(self.names, groups[group], strict=True)}
        return tensors, dict(self.values)

    def load(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Restore :meth:`state`; raises KeyError where it is another average's."""
        self.values = {name: values[name] for name in self.values}
        self.kept = {  # copies on the device, in the memory format of the network
            group: [
                torch.empty_like(total).copy_(tensors[f"{group}.{name}"])
                for name, total in zip(self.names, self.total, strict=True)
            ]
            for group in {key.partition(".")[0] for key in tensors}
        }
        torch._foreach_copy_(self.total, self.kept.pop("total"))

    def _weights(self) -> Tensors:
        """What a step adds to the accumulator, in its precision."""
        return [tensor.to(total.dtype) for tensor, total in zip(self.live, self.total, strict=True)]

    def _segment(self, step: int) -> tuple[Tensors, int]:
        """Mean of the accumulated weights and their number; begins to accumulate anew."""
        number = step - self.values["first"] + 1
        mean = list(torch._foreach_div(self.total, float(number)))
        torch._foreach_zero_(self.total)
        self.values["first"] = step + 1
        return mean, number

    def _merge(self, group: str, tensors: Tensors, number: int) -> None:
        """Add the mean of `number` weights, which is copied, to a mean that is kept."""
        self.values[group] += number
        if group in self.kept:
            torch._foreach_lerp_(self.kept[group], tensors, number / self.values[group])
        else:
            self.kept[group] = [tensor.clone() for tensor in tensors]


class ExponentialAverage(WeightAverage):
    r"""Exponential average :math:`\sum_i d^{t-i} \theta_i / \sum_i d^{t-i}` from the first step on.

    The decay d is :data:`EMA_DECAY`, or 1 − 5 / steps where that is smaller: at most a fifth of a run is remembered.
    """

    def __init__(self, network: nn.Module, steps: int, start: int = 0) -> None:
        super().__init__(network, steps)
        self.decay = max(0.0, min(EMA_DECAY, 1 - 5 / steps))
        self.values["number"] = 0

    @torch.no_grad()
    def add(self) -> None:
        """Move the accumulator towards the weights."""
        torch._foreach_lerp_(self.total, self._weights(), 1 - self.decay)

    def record(self, step: int, loss: float) -> None:
        """Count the steps."""
        self.values["number"] = step + 1

    def mean(self) -> Tensors | None:
        """The accumulator began with zeros: divide by the sum of the weights' shares."""
        number = self.values["number"]
        return list(torch._foreach_div(self.total, 1 - self.decay**number)) if number else None


class SimpleAverage(WeightAverage):
    """Arithmetic mean of the weights after every step from `start` on."""

    def __init__(self, network: nn.Module, steps: int, start: int = 0) -> None:
        super().__init__(network, steps, start)
        self.values["average"] = 0

    def record(self, step: int, loss: float) -> None:
        """Add the steps since the last record."""
        if step >= self.values["first"]:
            self._merge("average", *self._segment(step))


class ValleyAverage(WeightAverage):
    """SWAD (Cha et al. 2021): mean of the weights after every step of a valley of the validation loss.

    The validation loss is known at records, so that the valley is made of the segments between them. It begins with the
    segment whose record has the lowest loss of it and the :data:`N_CONVERGE` − 1 following ones. Their mean loss times
    1 + :data:`TOLERANCE_RATIO` is the height. The valley ends with the last record at or below it, before
    :data:`N_TOLERANCE` records in a row are above. Where no valley began, the average at the end of the run is that of
    the last segment, as in the authors' code. The search begins at `start`, so that a penalty that is
    switched on does not end a valley of the loss without it; the authors' begins with the run.
    """

    def __init__(self, network: nn.Module, steps: int, start: int = 0) -> None:
        super().__init__(network, steps, start)
        # Number and loss of the segments before the valley, which are kept as recent0, …; "outside" are segments above
        # the height that may yet be in the valley.
        self.values |= {"recent": [], "height": None, "average": 0, "outside": 0, "above": 0}

    def record(self, step: int, loss: float) -> None:
        """Add a segment: look for the beginning of the valley, then for its end."""
        if step < self.values["first"] or self.values["above"] >= N_TOLERANCE:
            return  # before the search, or after the valley
        segment = (*self._segment(step), loss if math.isfinite(loss) else None)
        if self.values["height"] is not None:
            self._extend(*segment)
            return
        recent = [(self.kept.pop(f"recent{k}"), *about) for k, about in enumerate(self.values["recent"])]
        recent = [*recent, segment][-N_CONVERGE:]
        losses = [loss for *_, loss in recent if loss is not None]
        if len(losses) == N_CONVERGE and losses[0] == min(losses):
            self.values["height"] = (1 + TOLERANCE_RATIO) * sum(losses) / N_CONVERGE
            for one in recent:
                self._extend(*one)
            recent = []
        elif step == self.steps - 1:
            self._merge("average", *segment[:2])
        self.kept |= {f"recent{k}": tensors for k, (tensors, *_) in enumerate(recent)}
        self.values["recent"] = [about for _, *about in recent]

    def _extend(self, tensors: Tensors, number: int, loss: float | None) -> None:
        if loss is None or loss > self.values["height"]:
            self.values["above"] += 1
            self._merge("outside", tensors, number)
            return
        if self.values["above"]:
            self._merge("average", self.kept.pop("outside"), self.values["outside"])
            self.values |= {"outside": 0, "above": 0}
        self._merge("average", tensors, number)


_AVERAGES: dict[str, type[WeightAverage]] = {"ema": ExponentialAverage, "sma": SimpleAverage, "swad": ValleyAverage}

AVERAGES = ("none", *_AVERAGES)
"""Values of `--average`."""


def make_average(name: str, network: nn.Module, steps: int, start: int = 0) -> WeightAverage | None:
    """Make one of :data:`AVERAGES`, None for "none"; the other arguments are those of :class:`WeightAverage`."""
    return None if check_choice("average", name, AVERAGES) == "none" else _AVERAGES[name](network, steps, start)
