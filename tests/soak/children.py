"""Commands in forked children: importing torch once makes hundreds of them affordable."""

import errno
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

FILE_EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
"""Audited operations at which a child can be killed."""

Prepare = Callable[[], None]


@dataclass(frozen=True)
class Ended:
    """How a child ended: exit code, or minus a signal; what it printed; its operations on files in a folder."""

    code: int
    output: str
    operations: int = 0

    @property
    def traceback(self) -> bool:
        """Whether it printed a traceback."""
        return "Traceback (most recent call last)" in self.output

    @property
    def last_line(self) -> str:
        """Its last line."""
        return self.output.strip().splitlines()[-1] if self.output.strip() else ""


class Child:
    """A command under way."""

    def __init__(self, arguments: Sequence[str], folder: Path, prepare: Sequence[Prepare] = ()) -> None:
        self._printed, self._count = os.memfd_create("printed"), os.memfd_create("count")
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _become_command(arguments, folder, prepare, self._printed, self._count)

    def wait(self) -> Ended:
        """Wait for its end."""
        _, status = os.waitpid(self.pid, 0)
        output, operations = (os.pread(file, os.fstat(file).st_size, 0) for file in (self._printed, self._count))
        os.close(self._printed)
        os.close(self._count)
        return Ended(os.waitstatus_to_exitcode(status), output.decode(errors="replace"), len(operations))


def run(arguments: Sequence[str], folder: Path, *prepare: Prepare) -> Ended:
    """Run a command of the package in a folder; `prepare` is called in the child before it."""
    return Child(arguments, folder, prepare).wait()


def signalled_at(number: int, folder: Path, how: signal.Signals = signal.SIGKILL, times: int = 1) -> Prepare:
    """Send the child a signal before as many operations on files in a folder, from that number, from 0, on."""

    def prepare() -> None:
        accept_interrupts()
        _watch(folder, lambda count: os.kill(os.getpid(), how) if number <= count < number + times else None)

    return prepare


def accept_interrupts() -> None:
    """Let a child be interrupted even where the soak itself runs in the background, which ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def largest_file(size: int) -> Prepare:
    """Limit the size of files: the write beyond it fails."""

    def prepare() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return prepare


def without_rights() -> None:
    """Become a user without rights, as permissions do not bind root."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


def _become_command(
    arguments: Sequence[str], folder: Path, prepare: Sequence[Prepare], output: int, count: int
) -> None:
    code = 70
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(folder)
        os.environ["COLUMNS"] = "200"
        _watch(folder, lambda _: os.write(count, b"."))
        for action in prepare:
            action()
        sys.argv = ["momentalign", *arguments]
        from momentalign.cli import main

        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError as error:
                if error.errno != errno.EFBIG:
                    code = code or 74
        os._exit(code)


def _watch(folder: Path, call: Callable[[int], object]) -> None:
    """Call a function with the number, from 0, of each operation on a file in a folder, before it happens."""
    inside, seen, busy = str(folder.resolve()), 0, False

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen, busy
        if busy or event not in FILE_EVENTS or not arguments:
            return
        busy = True
        try:
            name = arguments[0]
            if event == "open" and not _writes(arguments):
                return
            if isinstance(name, str | bytes | os.PathLike) and os.path.realpath(os.fsdecode(name)).startswith(inside):
                seen += 1
                call(seen - 1)
        finally:
            busy = False

    sys.addaudithook(hook)


def _writes(arguments: tuple[object, ...]) -> bool:
    flags = arguments[2] if len(arguments) > 2 else 0
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))
