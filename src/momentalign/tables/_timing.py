"""Threads for fits to tables, and the time that a fit takes."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # ships no types

_SMALL = 1_000_000
"""Numbers that one thread handles at least as fast as several."""
_LONG = 1.0
"""Seconds of a call that is not repeated."""


def threads_for(numbers: int) -> AbstractContextManager[Any]:
    """One thread for a table of few numbers: on a busy machine threads wait for each other in every short loop."""
    context: AbstractContextManager[Any] = threadpool_limits(1) if numbers < _SMALL else nullcontext()
    return context


def seconds_of(work: Callable[[], object]) -> float:
    """Seconds of a call, the shorter of two, since the first in a process takes longer; a long one is not repeated."""
    times: list[float] = []
    while len(times) < 2 and max(times, default=0.0) < _LONG:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
