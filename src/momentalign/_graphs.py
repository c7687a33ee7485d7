"""CUDA graphs: kernels that are recorded once and launched together.

Launching kernels one by one often takes longer than running them. A graph holds addresses, not tensors: its inputs and
outputs must stay in the same memory.
"""

import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar, cast

import torch

Result = TypeVar("Result")


@contextmanager
def without_collection() -> Iterator[None]:
    """No automatic garbage collection: one that destroys another graph while a graph is captured spoils the capture."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Graph(Generic[Result]):
    """A function of no arguments as a CUDA graph, on the current device.

    It keeps the function: memory that only the function references would be reused between two replays. It keeps the
    function's result too, which every replay overwrites.
    """

    def __init__(self, function: Callable[[], Result], device: torch.device) -> None:
        self.function = function
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream(device)
        with without_collection(), torch.cuda.graph(self.graph, stream=stream):
            self.result = function()
        torch.cuda.current_stream(device).wait_stream(stream)

    def replay(self) -> Result:
        """Run what was recorded; returns the function's result, in the same memory each time."""
        self.graph.replay()
        return self.result


def call_without_waiting(function: Callable[[], Result]) -> tuple[Result | None, str | None]:
    """Call a function; returns its result, or the reason if it stopped where the host would wait for the device."""
    mode = torch.cuda.get_sync_debug_mode()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype", UserWarning)
            torch.cuda.set_sync_debug_mode("error")
        return function(), None
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        return None, str(error).partition("\n")[0].rstrip(".")
    finally:
        torch.cuda.set_sync_debug_mode(mode)


class Replayed(Generic[Result]):
    """A function of no arguments that becomes a CUDA graph at its third call, if it does not wait for the device.

    Libraries choose their kernels in the first call; the second detects whether the function waits, which a graph
    cannot. Replays return the same tensors, overwritten.
    """

    def __init__(self, function: Callable[[], Result], device: torch.device) -> None:
        self.function, self.device = function, device
        self.calls = 0
        self.waits = False
        self.graph: Graph[Result] | None = None

    def __call__(self) -> Result:
        """Call the function, or replay its graph."""
        self.calls += 1
        if self.calls == 2:
            result, reason = call_without_waiting(self.function)
            if reason is None:
                return cast(Result, result)
            self.waits = True
        elif self.calls > 2 and not self.waits:
            self.graph = self.graph or Graph(self.function, self.device)
            return self.graph.replay()
        return self.function()
