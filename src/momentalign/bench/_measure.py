"""Time and peak memory of a function, on CPU and on CUDA."""

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

Function = Callable[[], object]


@dataclass(frozen=True)
class Measurement:
    """Median seconds of a call, and the most bytes of tensors that were alive at once beyond those before it."""

    seconds: float
    peak_bytes: int


def measure(functions: dict[str, Function], device: torch.device, budget: float) -> dict[str, Measurement]:
    """Measure functions side by side: they take turns, so that what slows the machine down slows all of them.

    Args:
        functions: By name.
        device: Where they run.
        budget: Seconds to spend on each of them, roughly; at least three calls are timed, one where it takes seconds.

    Returns:
        A measurement for each name.
    """
    peaks = {name: peak_bytes(function, device) for name, function in functions.items()}
    first = {name: _seconds(function, device) for name, function in functions.items()}
    rounds = {name: max(3 if seconds < 1 else 1, min(200, int(budget / seconds))) for name, seconds in first.items()}
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(max(rounds.values())):
        for name, function in functions.items():
            if turn < rounds[name]:
                times[name].append(_seconds(function, device))
    return {name: Measurement(statistics.median(times[name]), peaks[name]) for name in functions}


def peak_bytes(function: Function, device: torch.device) -> int:
    """Most bytes of tensors alive at once during a call, beyond those alive before; a first call warms up."""
    function()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        function()
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device) - before)
    live = _LiveStorages()
    with live:
        function()
    return live.peak


def _seconds(function: Function, device: torch.device) -> float:
    if device.type == "cuda":
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


class _LiveStorages(TorchDispatchMode):
    """Adds up the storages that operations make and that are still alive, views and saved tensors counted once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.total = 0
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        known = {tensor.untyped_storage()._cdata for tensor in _tensors((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        for tensor in _tensors(result):
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key in self.alive and self.alive[key][0].expired():  # its place was given to another
                self.total -= self.alive.pop(key)[1]
            if key not in known and key not in self.alive:
                self.alive[key] = (StorageWeakRef(storage), storage.nbytes())
                self.total += storage.nbytes()
        if self.total > self.peak:
            # Only now does it matter which of them are gone.
            self.alive = {key: entry for key, entry in self.alive.items() if not entry[0].expired()}
            self.total = sum(size for _, size in self.alive.values())
            self.peak = max(self.peak, self.total)
        return result


def _tensors(tree: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_iter(tree) if isinstance(leaf, Tensor))
