"""Averages of a network's weights over the steps of a run: exponential, from a step on, or over a loss valley.

A step adds the present weights to an accumulator: one operation on lists of tensors, without reading anything back, so
that it can be part of a captured step. Everything else happens at records, on the host.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
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

PARTS = 48
"""Number of parts in which a small network's weights are added, in parallel in one launch."""


class WeightAverage(ABC):
    """Average of a network's weights over steps, in float32 at least.

    Trained parameters and floating-point buffers, such as the statistics of batch normalisation, are averaged; frozen
    parameters and integer buffers are the network's. A loop calls :meth:`before` and :meth:`add` around every step
    and :meth:`record` at every record.

    Args:
        network: The network, on its device; its tensors are changed in place only.
        steps: Number of steps of the run.
        start: First step of a simple average, and of the search for a valley.
    """

    def __init__(self, network: nn.Module, steps: int, start: int = 0) -> None:
        trained = {name: tensor for name, tensor in network.named_parameters() if tensor.requires_grad}
        floating = {name: tensor for name, tensor in network.named_buffers() if tensor.is_floating_point()}
        moving = trained | floating
        self.names, self.live = list(moving), [tensor.detach() for tensor in moving.values()]
        kinds = [torch.promote_types(tensor.dtype, torch.float32) for tensor in self.live]
        self.same_kind = all(tensor.dtype == kind for tensor, kind in zip(self.live, kinds, strict=True))
        self.total = [torch.zeros_like(tensor, dtype=kind) for tensor, kind in zip(self.live, kinds, strict=True)]
        on_device = self.same_kind and all(tensor.is_cuda for tensor in self.live)
        self.parts = (split_small(self.total), split_small(self.live)) if on_device else None
        self.steps = steps
        self.first = start  # of the steps that are accumulated

    @torch.no_grad()
    def add(self) -> None:
        """Accumulate the weights after a step; can be captured in a CUDA graph."""
        torch._foreach_add_(*self._total_and_weights())

    def before(self, step: int) -> None:
        """Reset the accumulator before the first step that counts."""
        if step == self.first:
            torch._foreach_zero_(self.total)

    @abstractmethod
    def record(self, step: int, loss: float) -> None:
        """Add the steps since the last record; `loss` is the validation loss of the raw weights."""

    @abstractmethod
    def mean(self) -> Tensors | None:
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
            for name, tensor in zip(self.names, members, strict=bool(members))  # an empty group has no tensors
        }
        return tensors, {"first": self.first, **self._values()}

    def load(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Restore :meth:`state`; raises KeyError where it is another average's."""
        groups = dict.fromkeys(key.partition(".")[0] for key in tensors)
        found = {group: [tensors[f"{group}.{name}"] for name in self.names] for group in groups}
        torch._foreach_copy_(self.total, found.pop("total"))
        self.first = values["first"]
        like = {  # copies on the device, in the memory format of the network
            group: [torch.empty_like(total).copy_(tensor) for total, tensor in zip(self.total, members, strict=True)]
            for group, members in found.items()
        }
        self._restore(like, values)

    def _groups(self) -> dict[str, Tensors]:
        """Lists of tensors beside `total` that belong to the state."""
        return {}

    @abstractmethod
    def _values(self) -> dict[str, Any]:
        """Plain values that belong to the state."""

    @abstractmethod
    def _restore(self, groups: Mapping[str, Tensors], values: Mapping[str, Any]) -> None:
        """Restore what :meth:`_groups` and :meth:`_values` returned."""

    def _total_and_weights(self) -> tuple[Tensors, Tensors]:
        """The accumulator, and what a step adds to it, in lists that are alike."""
        if self.parts is not None:
            return self.parts
        if self.same_kind:
            return self.total, self.live
        return self.total, [tensor.to(total.dtype) for tensor, total in zip(self.live, self.total, strict=True)]

    def _segment(self, step: int) -> tuple[Tensors, int]:
        """Mean of the accumulated weights and their number; begins to accumulate anew."""
        number = step - self.first + 1
        mean = list(torch._foreach_div(self.total, float(number)))
        torch._foreach_zero_(self.total)
        self.first = step + 1
        return mean, number


class RunningMean:
    """Weighted mean of means."""

    def __init__(self, tensors: Tensors | None = None, number: int = 0) -> None:
        self.tensors, self.number = tensors or [], number

    def add(self, tensors: Tensors, number: int) -> None:
        """Add the mean of `number` weights, which is copied."""
        self.number += number
        if self.tensors:
            torch._foreach_lerp_(self.tensors, tensors, number / self.number)
        else:
            self.tensors = [tensor.clone() for tensor in tensors]


def split_small(tensors: Sequence[Tensor]) -> Tensors:
    """A small network's memory in about :data:`PARTS` parts; a large network's tensors, or scattered ones, as they are.

    An operation on a list of tensors gives a GPU's multiprocessors 64 K numbers each, so that a network of a few times
    that uses few of them.
    """
    number = sum(tensor.numel() for tensor in tensors)
    last = [tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last) for tensor in tensors]
    flat = [t.permute(0, 2, 3, 1) if channels_last else t for t, channels_last in zip(tensors, last, strict=True)]
    if number > PARTS * 2**16 or not all(tensor.is_contiguous() for tensor in flat):
        return list(tensors)
    size = -(-number // PARTS // 1024) * 1024 or 1024
    return [part for tensor in flat for part in tensor.view(-1).split(size)]


class ExponentialAverage(WeightAverage):
    r"""Exponential average :math:`\sum_i d^{t-i} \theta_i / \sum_i d^{t-i}` from the first step on.

    The decay d is :data:`EMA_DECAY`, or 1 − 5 / steps where that is smaller: at most a fifth of a run is remembered.
    """

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

    def __init__(self, network: nn.Module, steps: int, start: int = 0) -> None:
        super().__init__(network, steps, start)
        self.average = RunningMean()

    def record(self, step: int, loss: float) -> None:
        if step >= self.first:
            self.average.add(*self._segment(step))

    def mean(self) -> Tensors | None:
        return self.average.tensors or None

    def _groups(self) -> dict[str, Tensors]:
        return {"average": self.average.tensors}

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
        recent = {f"recent{k}": tensors for k, (tensors, _, _) in enumerate(self.recent)}
        return {"valley": self.valley.tensors, "outside": self.outside.tensors} | recent

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
    "ema": ExponentialAverage,
    "sma": SimpleAverage,
    "swad": ValleyAverage,
}

AVERAGES = ("none", *_AVERAGES)
"""Values of `--average`."""


def make_average(name: str, network: nn.Module, steps: int, start: int = 0) -> WeightAverage | None:
    """Make one of :data:`AVERAGES`, None for "none"; the other arguments are those of :class:`WeightAverage`."""
    return None if check_choice("average", name, AVERAGES) == "none" else _AVERAGES[name](network, steps, start)
