"""Ctrl-C and SIGTERM: a command ends with one line, exit code 130 or 143, and no process left behind."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_PATIENCE_SECONDS = 10.0


INTERRUPTED = (128 + signal.SIGINT, 128 + signal.SIGTERM)
"""Exit codes of commands that a signal ended."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command like Ctrl-C but with another exit code."""


def exit_code(error: KeyboardInterrupt) -> int:
    """Exit code of a command that a signal ended: 128 plus the signal's number."""
    return 128 + (signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)


def ignore_signals() -> None:
    """Ignore signals while the interpreter shuts down, with its default handlers restored."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def print_interrupted() -> None:
    """Print the line of a command that does not handle interrupts itself."""
    print("Interrupted.", file=sys.stderr, flush=True)


class Interrupts:
    """Handler of SIGINT and SIGTERM.

    The first signal raises KeyboardInterrupt. Further ones are ignored while the command cleans up, and end the process
    at once if it still runs ten seconds later.
    """

    def __init__(self) -> None:
        self._first: float | None = None
        self._process = os.getpid()
        self._hook = sys.unraisablehook

    def install(self) -> None:
        """Handle the signals that have no handler; `nohup` and background jobs of a script ignore SIGINT."""
        for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            if signal.getsignal(number) is default:
                signal.signal(number, self._handle)
                sys.unraisablehook = self._unraisable

    def _handle(self, number: int, frame: FrameType | None) -> None:
        error = Terminated() if number == signal.SIGTERM else KeyboardInterrupt()
        if os.getpid() != self._process:  # a forked process, which reads images: its parent decides how to stop
            if number == signal.SIGTERM:
                os._exit(exit_code(error))
            return
        if self._first is not None:
            if time.monotonic() - self._first > _PATIENCE_SECONDS:
                _exit_now(error)
            return
        self._first = time.monotonic()
        if _is_importing(frame):
            _exit_now(error)
        raise error

    def _unraisable(self, unraisable: Any) -> None:
        """End a process that was interrupted where no exception can be raised, in a destructor for instance."""
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            _exit_now(unraisable.exc_value)
        self._hook(unraisable)


@contextmanager
def blocked_interrupts() -> Iterator[None]:
    """Block SIGINT in processes that start in this block; Windows has no such mask."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # it would unblock SIGINT when the first process starts
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported: half-imported libraries fail in other ways than by KeyboardInterrupt."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _exit_now(error: KeyboardInterrupt) -> None:
    """End this process and its children without cleaning up; all files are written atomically."""
    print_interrupted()
    started = sys.modules.get("multiprocessing")
    for child in started.active_children() if started is not None else ():
        child.kill()
    os._exit(exit_code(error))
