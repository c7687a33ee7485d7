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

from momentalign._graphs import Graph

Call = Callable[[], object]


@dataclass(frozen=True)
class Measurement:
    """Median seconds of a call, and the peak memory of its tensors beyond what was allocated before."""

    seconds: float
    peak_bytes: int


def measure_in_turns(calls: dict[str, Call], device: torch.device, budget: float) -> dict[str, Measurement]:
    """Measure functions side by side: they take turns, so that what slows the machine down slows all of them.

    `budget` is roughly the seconds spent on each; at least three calls are timed, one where a call takes seconds.
    """
    peaks = {name: peak_bytes(call, device) for name, call in calls.items()}
    first = {name: _seconds(call, device) for name, call in calls.items()}
    rounds = {name: max(3 if seconds < 1 else 1, min(200, int(budget / seconds))) for name, seconds in first.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(max(rounds.values())):
        for name, call in calls.items():
            if turn < rounds[name]:
                times[name].append(_seconds(call, device))
    return {name: Measurement(statistics.median(times[name]), peaks[name]) for name in calls}


def peak_bytes(call: Call, device: torch.device) -> int:
    """Peak memory of a call's tensors beyond what was allocated before; a first call warms up."""
    call()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        call()
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device) - before)
    live = _LiveStorages()
    with live:
        call()
    return live.peak


def cpu_clock() -> Callable[[], float]:
    """Clock for work on a CPU: the process's own time on one thread, which other processes do not lengthen."""
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def captured(call: Call) -> Call:
    """Capture a function in a CUDA graph, after a warm-up on a side stream, and return its replay."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    return Graph(call, torch.device("cuda", torch.cuda.current_device())).replay


def _seconds(call: Call, device: torch.device) -> float:
    if device.type == "cuda":
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3
    clock = cpu_clock()
    started = clock()
    call()
    return clock() - started


class _LiveStorages(TorchDispatchMode):
    """Adds up the storages that operations allocate and that are still alive; views and saved tensors count once."""

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
            if key in self.alive and self.alive[key][0].expired():  # the address was reused
                self.total -= self.alive.pop(key)[1]
            if key not in known and key not in self.alive:
                self.alive[key] = (StorageWeakRef(storage), storage.nbytes())
                self.total += storage.nbytes()
        if self.total > self.peak:
            # Expired storages are dropped only where they could change the peak.
            self.alive = {key: entry for key, entry in self.alive.items() if not entry[0].expired()}
            self.total = sum(size for _, size in self.alive.values())
            self.peak = max(self.peak, self.total)
        return result


def _tensors(tree: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_iter(tree) if isinstance(leaf, Tensor))
