"""Averages of a network's weights over the steps of a run: exponential, from a step on, or over a loss valley.

A step adds the present weights to an accumulator: one operation on lists of tensors, without reading anything back, so
that it can be part of a captured step. Everything else happens at records, on numbers that the host knows.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from momentalign._validation import check_choice

EMA_DECAY = 0.999
"""Decay of the exponential average in runs of 5,000 steps or more; in shorter ones 1 − 5 / steps."""

N_CONVERGE, N_TOLERANCE, TOLERANCE_RATIO = 3, 6, 0.3
"""SWAD: records without a new minimum until the valley begins, records out of it until it ends, and its height."""

_Tensors = list[Tensor]


class WeightAverage(ABC):
    """Average of a network's weights over steps, in float32 at least.

    Trained parameters and floating-point buffers, such as the statistics of batch normalisation, are averaged; frozen
    parameters and integer buffers are the network's. A loop calls :meth:`before` and :meth:`add` around every step
    and :meth:`record` at every record.

    Args:
        network: The network, on its device; its tensors are changed in place only.
        steps: Number of steps of the run.
        boundary: Step at which annealing switches a penalty on, or None.
    """

    name: str = ""
    """Name on the command line."""

    def __init__(self, network: nn.Module, steps: int, boundary: int | None = None) -> None:
        trained = {name: tensor for name, tensor in network.named_parameters() if tensor.requires_grad}
        floating = {name: tensor for name, tensor in network.named_buffers() if tensor.is_floating_point()}
        moving = trained | floating
        self.names, self.live = list(moving), [tensor.detach() for tensor in moving.values()]
        kinds = [torch.promote_types(tensor.dtype, torch.float32) for tensor in self.live]
        self.same_kind = all(tensor.dtype == kind for tensor, kind in zip(self.live, kinds, strict=True))
        self.total = [torch.zeros_like(tensor, dtype=kind) for tensor, kind in zip(self.live, kinds, strict=True)]
        self.steps = steps
        self.first = start_step(steps, boundary)  # of the steps that are accumulated

    @torch.no_grad()
    def add(self) -> None:
        """Accumulate the weights after a step; can be captured in a CUDA graph."""
        torch._foreach_add_(self.total, self._weights())

    def before(self, step: int) -> None:
        """Forget what was accumulated before the first step that counts."""
        if step == self.first:
            torch._foreach_zero_(self.total)

    @abstractmethod
    def record(self, step: int, loss: float) -> None:
        """Take in the steps since the last record; `loss` is the validation loss of the raw weights."""

    @abstractmethod
    def mean(self) -> _Tensors | None:
        """The average at the last record, or None before there is one."""

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
        groups = {"total": self.total, **self._groups()}
        tensors = {
            f"{group}.{name}": tensor
            for group, members in groups.items()
            for name, tensor in zip(self.names, members, strict=True)
        }
        return tensors, {"first": self.first, **self._values()}

    def load(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Restore :meth:`state`; raises KeyError where it is another average's."""
        groups = dict.fromkeys(key.partition(".")[0] for key in tensors)
        found = {group: [tensors[f"{group}.{name}"] for name in self.names] for group in groups}
        torch._foreach_copy_(self.total, found.pop("total"))
        self.first = values["first"]
        self._restore({group: self._like_total(members) for group, members in found.items()}, values)

    def _groups(self) -> dict[str, _Tensors]:
        """Lists of tensors beside `total` that belong to the state."""
        return {}

    @abstractmethod
    def _values(self) -> dict[str, Any]:
        """Plain values that belong to the state."""

    @abstractmethod
    def _restore(self, groups: Mapping[str, _Tensors], values: Mapping[str, Any]) -> None:
        """Restore what :meth:`_groups` and :meth:`_values` returned."""

    def _weights(self) -> _Tensors:
        if self.same_kind:
            return self.live
        return [tensor.to(total.dtype) for tensor, total in zip(self.live, self.total, strict=True)]

    def _like_total(self, tensors: Sequence[Tensor]) -> _Tensors:
        """Copies on the device, in the memory format of the network."""
        return [torch.empty_like(total).copy_(tensor) for total, tensor in zip(self.total, tensors, strict=True)]

    def _segment(self, step: int) -> tuple[_Tensors, int]:
        """Mean of the accumulated weights and their number; begins to accumulate anew."""
        number = step - self.first + 1
        mean = list(torch._foreach_div(self.total, float(number)))
        torch._foreach_zero_(self.total)
        self.first = step + 1
        return mean, number


class _Mean:
    """Mean of means, weighted by how many weights each of them stands for."""

    def __init__(self, tensors: _Tensors | None = None, number: int = 0) -> None:
        self.tensors, self.number = tensors or [], number

    def add(self, tensors: _Tensors, number: int) -> None:
        """Take in the mean of `number` weights, which is not kept."""
        self.number += number
        if self.tensors:
            torch._foreach_lerp_(self.tensors, tensors, number / self.number)
        else:
            self.tensors = [tensor.clone() for tensor in tensors]


class ExponentialAverage(WeightAverage):
    r"""Exponential average :math:`\sum_i d^{t-i} \theta_i / \sum_i d^{t-i}` from the first step on.

    The decay d is :data:`EMA_DECAY`, or 1 − 5 / steps where that is smaller: at most a fifth of a run is remembered.
    """

    name = "ema"

    def __init__(self, network: nn.Module, steps: int, boundary: int | None = None) -> None:
        super().__init__(network, steps, boundary)
        self.first = 0
        self.decay = max(0.0, min(EMA_DECAY, 1 - 5 / steps))
        self.number = 0

    @torch.no_grad()
    def add(self) -> None:
        """Move the accumulator towards the weights."""
        torch._foreach_lerp_(self.total, self._weights(), 1 - self.decay)

    def record(self, step: int, loss: float) -> None:
        """Count the steps."""
        self.number = step + 1

    def mean(self) -> _Tensors | None:
        """The accumulator began with zeros: divide by the sum of the weights' shares."""
        return list(torch._foreach_div(self.total, 1 - self.decay**self.number)) if self.number else None

    def _values(self) -> dict[str, Any]:
        return {"number": self.number}

    def _restore(self, groups: Mapping[str, _Tensors], values: Mapping[str, Any]) -> None:
        self.number = values["number"]


class SimpleAverage(WeightAverage):
    """Arithmetic mean of the weights after every step from :func:`start_step` on."""

    name = "sma"

    def __init__(self, network: nn.Module, steps: int, boundary: int | None = None) -> None:
        super().__init__(network, steps, boundary)
        self.average = _Mean()

    def record(self, step: int, loss: float) -> None:
        """Take in the mean of the steps since the last record."""
        if step >= self.first:
            self.average.add(*self._segment(step))

    def mean(self) -> _Tensors | None:
        """The mean, None before the first step that counts."""
        return self.average.tensors or None

    def _groups(self) -> dict[str, _Tensors]:
        return {"average": self.average.tensors} if self.average.tensors else {}

    def _values(self) -> dict[str, Any]:
        return {"number": self.average.number}

    def _restore(self, groups: Mapping[str, _Tensors], values: Mapping[str, Any]) -> None:
        self.average = _Mean(groups.get("average"), values["number"])


class ValleyAverage(WeightAverage):
    """SWAD (Cha et al. 2021): mean of the weights after every step of a valley of the validation loss.

    The validation loss is known at records, so that the valley is made of the segments between them. It begins with the
    segment whose record has the lowest loss of it and the :data:`N_CONVERGE` − 1 following ones. Their mean loss times
    1 + :data:`TOLERANCE_RATIO` is the height. The valley ends with the last record at or below it, before
    :data:`N_TOLERANCE` records in a row are above. Where no valley began, the average at the end of the run is that of
    the last segment, as in the authors' code. The search begins at :func:`start_step`, so that a penalty that is
    switched on does not end a valley of the loss without it; the authors' begins with the run.
    """

    name = "swad"

    def __init__(self, network: nn.Module, steps: int, boundary: int | None = None) -> None:
        super().__init__(network, steps, boundary)
        self.recent: list[tuple[_Tensors, int, float]] = []  # segments before the valley: mean, number, loss
        self.height: float | None = None
        self.valley, self.outside = _Mean(), _Mean()  # `outside`: segments above the height that may yet be in it
        self.above = 0
        self.fallback: _Tensors | None = None

    @property
    def ended(self) -> bool:
        """Whether the valley has ended: nothing changes the average any more."""
        return self.above >= N_TOLERANCE

    def record(self, step: int, loss: float) -> None:
        """Take in a segment: look for the beginning of the valley, then for its end."""
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

    def _extend(self, tensors: _Tensors, number: int, loss: float) -> None:
        assert self.height is not None
        if loss <= self.height:
            if self.above:
                self.valley.add(self.outside.tensors, self.outside.number)
                self.outside, self.above = _Mean(), 0
            self.valley.add(tensors, number)
        else:
            self.above += 1
            if self.ended:
                self.outside = _Mean()
            else:
                self.outside.add(tensors, number)

    def mean(self) -> _Tensors | None:
        """Mean over the valley so far; at the end of a run without one, of the last segment."""
        return self.valley.tensors or self.fallback

    def _groups(self) -> dict[str, _Tensors]:
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

    def _restore(self, groups: Mapping[str, _Tensors], values: Mapping[str, Any]) -> None:
        losses = [(number, math.nan if loss is None else loss) for number, loss in values["recent"]]
        self.recent = [(groups[f"recent{k}"], number, loss) for k, (number, loss) in enumerate(losses)]
        self.height, self.above = values["height"], values["above"]
        self.valley, self.outside = (
            _Mean(groups.get(group), number)
            for group, number in zip(("valley", "outside"), values["numbers"], strict=True)
        )


_AVERAGES: dict[str, type[WeightAverage]] = {
    kind.name: kind for kind in (ExponentialAverage, SimpleAverage, ValleyAverage)
}

AVERAGES = ("none", *_AVERAGES)
"""Values of `--average`."""


def make_average(name: str, network: nn.Module, steps: int, boundary: int | None = None) -> WeightAverage | None:
    """Make an average by its name; None for "none".

    Args:
        name: One of :data:`AVERAGES`.
        network: The network, on its device.
        steps: Number of steps of the run.
        boundary: Step at which annealing switches a penalty on, or None.

    Returns:
        The average, of nothing yet.
    """
    if check_choice("average", name, AVERAGES) == "none":
        return None
    return _AVERAGES[name](network, steps, boundary)


def start_step(steps: int, boundary: int | None = None) -> int:
    """First step of a simple average, and of the search for a valley.

    After 2% of the steps; with a penalty that annealing switches on, 4% of the steps after that boundary, but at most
    half of what is left. Of 5,001 steps these are 100 and 200.

    Example:
        >>> start_step(5001), start_step(5001, boundary=500)
        (100, 700)
    """
    if boundary is None or not 0 < boundary < steps:
        return steps // 50
    return boundary + min(steps // 25, (steps - boundary) // 2)
