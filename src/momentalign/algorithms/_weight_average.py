"""The base class of weight averages.

A step adds the present weights to an accumulator: one operation on lists of tensors, without reading anything back, so
that it can be part of a captured step. Everything else happens at records, on the host.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

Tensors = list[Tensor]

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

    name: str = ""
    """Name on the command line."""

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

    def _like_total(self, tensors: Sequence[Tensor]) -> Tensors:
        """Copies on the device, in the memory format of the network."""
        return [torch.empty_like(total).copy_(tensor) for total, tensor in zip(self.total, tensors, strict=True)]

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
    flat = [tensor.permute(0, 2, 3, 1) if _is_channels_last(tensor) else tensor for tensor in tensors]
    if number > PARTS * 2**16 or not all(tensor.is_contiguous() for tensor in flat):
        return list(tensors)
    size = -(-number // PARTS // 1024) * 1024 or 1024
    return [part for tensor in flat for part in tensor.view(-1).split(size)]


def _is_channels_last(tensor: Tensor) -> bool:
    return tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
