"""Kinds of attacks: each takes an arena, the name of a command and a tally, and attacks once."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.soak.arena import Arena, Tally
from tests.soak.children import Child, Ended, accept_interrupts, largest_file, run, signalled_at, without_rights
from tests.soak.commands import COMMANDS, SWEEP, fingerprint

Attack = Callable[[Arena, str, Tally], None]

_PROCESSES = ("sweep",)
"""Commands that work in other processes: killed at a time, not at an operation."""


class SkippedError(Exception):
    """An attack that is not possible on this machine, and why."""


def kill(arena: Arena, name: str, tally: Tally) -> None:
    """Kill a command; read what is left; run it again."""
    _signal(arena, name, tally, signal.SIGKILL, 1)


def interrupt(arena: Arena, name: str, tally: Tally) -> None:
    """Interrupt a command by Ctrl-C or SIGTERM, once or several times: one line and an exit code; run it again."""
    _signal(arena, name, tally, arena.random.choice([signal.SIGINT, signal.SIGTERM]), arena.random.choice([1, 5]))


def _signal(arena: Arena, name: str, tally: Tally, how: signal.Signals, times: int) -> None:
    """Send a command signals, at operations on files or, where it works in other processes, at a time."""
    whole = arena.whole(name)
    folder = arena.new_folder(COMMANDS[name])
    words = arena.words(COMMANDS[name].arguments, COMMANDS[name])
    if name in _PROCESSES:
        moment = arena.random.uniform(0.5, 12)
        what = f"{times} × {how.name} after {moment:.1f} s"
        child = Child(words, folder, [accept_interrupts])
        time.sleep(moment)
        for _ in range(times):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, how)
            time.sleep(0.02)
        ended = child.wait()
        _wait_for_others(folder)
    else:
        number = arena.random.randrange(whole.ended.operations)
        what = f"{times} × {how.name} at operation {number} of {whole.ended.operations}"
        ended = Child(words, folder, [signalled_at(number, folder, how, times)]).wait()
    if ended.traceback:
        tally.note("tracebacks", f"{name}, {what}: {ended.last_line}")
    elif ended.code not in (0, -how if how == signal.SIGKILL else 128 + how):
        tally.note("wrong", f"{name}, {what}: exit code {ended.code}, {ended.last_line}")
    arena.check_answers(name, folder, tally, what)
    arena.resume(name, folder, tally, what)
    arena.remove(folder)


def fill_disk(arena: Arena, name: str, tally: Tally) -> None:
    """Run a command on a disk with little room, or with a limit for files; make room; run it again."""
    arena.whole(name)
    folder = arena.new_folder()
    size = int(2 ** arena.random.uniform(9, 18))
    with contextlib.ExitStack() as stack:
        mounted = stack.enter_context(_small_disk(folder))
        arena.put_before(COMMANDS[name], folder)
        if mounted:
            what = f"{size} bytes free on disk"
            _fill(folder, size)
            ended = arena.run(name, folder)
            (folder / "filler").unlink()
        else:
            what = f"files of {size} bytes at most"
            ended = arena.run(name, folder, largest_file(max(size, 8192)))
        _check_error(ended, name, what, tally)
        arena.check_answers(name, folder, tally, what)
        arena.resume(name, folder, tally, what)
    arena.remove(folder)


def forbid_writing(arena: Arena, name: str, tally: Tally) -> None:
    """Run a command in a folder that cannot be written to, then in one that can."""
    if not hasattr(os, "setuid"):
        raise SkippedError("no users here")
    arena.whole(name)
    folder = arena.new_folder(COMMANDS[name])
    paths = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for path in paths:
        path.chmod(0o555)
    what = "read-only folder"
    ended = arena.run(name, folder, without_rights)
    _check_error(ended, name, what, tally)
    if ended.code == 0:
        tally.note("wrong", f"{name}, {what}: no error")
    for path in paths:
        path.chmod(0o755)
    arena.resume(name, folder, tally, what)
    arena.remove(folder)


def damage(arena: Arena, name: str, tally: Tally) -> None:
    """Cut a file of a finished output, and read the output."""
    if not COMMANDS[name].checks:
        raise SkippedError("nothing reads its output")
    arena.whole(name)
    folder = arena.new_folder(COMMANDS[name])
    arena.copy_result(name, folder)
    out = folder / COMMANDS[name].out
    path = arena.random.choice([path for path in sorted(out.rglob("*")) if path.is_file() and path.stat().st_size])
    content = path.read_bytes()
    content = content[: arena.random.choice([0, len(content) // 2, len(content) - 1])]
    what = f"{path.name} cut to {len(content)} bytes"
    path.write_bytes(content)
    arena.check_answers(name, folder, tally, what, damaged=path.name)
    arena.remove(folder)


def damage_unfinished(arena: Arena, name: str, tally: Tally) -> None:
    """Kill a command, cut a file that it left, and run it again: the same result, or one line that names it."""
    whole = arena.whole(name)
    folder = arena.new_folder(COMMANDS[name])
    arena.run(name, folder, signalled_at(arena.random.randrange(whole.ended.operations), folder))
    # A finished run is not checked against its records, and test_resume cuts those of an unfinished one.
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "records.jsonl"]
    left = [path for path in files if path.stat().st_size]
    if left:
        path = arena.random.choice(left)
        size = arena.random.randrange(path.stat().st_size)
        os.truncate(path, size)
        what = f"killed, then {path.relative_to(folder)} cut to {size} bytes"
        ended = arena.run(name, folder)
        if ended.traceback:
            tally.note("tracebacks", f"{name}, {what}: {ended.last_line}")
        elif ended.code < 0:
            tally.note("lost", f"{name}, {what}: {ended.last_line}")
        elif ended.code == 0 and not _same(arena, name, folder):
            tally.note("wrong", f"{name}, {what}")
        elif ended.code != 0 and path.parent.name not in ended.output and path.name not in ended.output:
            tally.note("wrong", f"{name}, {what}: {ended.last_line} (does not name it)")
    arena.remove(folder)


def run_twice_at_once(arena: Arena, name: str, tally: Tally) -> None:
    """Run a command twice at once in one folder, then again."""
    arena.whole(name)
    command, what = COMMANDS[name], "twice at once"
    folder = arena.new_folder(command)
    children = [Child(arena.words(command.arguments, command), folder) for _ in range(2)]
    for child in children:
        _check_error(child.wait(), name, what, tally)
    arena.check_answers(name, folder, tally, what)
    arena.resume(name, folder, tally, what)
    arena.remove(folder)


def fill_output(arena: Arena, name: str, tally: Tally) -> None:
    """Write the answer of a command that reads the output to a full device."""
    if not Path("/dev/full").exists() or not COMMANDS[name].checks:
        raise SkippedError("no /dev/full, or nothing reads its output")
    arena.whole(name)
    folder = arena.new_folder(COMMANDS[name])
    arena.copy_result(name, folder)
    for words in COMMANDS[name].checks:
        ended = run(arena.words([*words[:-1], "/dev/full"], COMMANDS[name]), folder)
        _check_error(ended, name, "/dev/full", tally)
        if ended.code == 0:
            tally.note("wrong", f"{name}, /dev/full: no error")
    arena.remove(folder)


def lose_ray_worker(arena: Arena, name: str, tally: Tally) -> None:
    """Kill a process of Ray that trains; the sweep goes on without it."""
    if name != "sweep":
        raise SkippedError("only sweeps use Ray")
    try:
        import ray  # noqa: F401
    except ModuleNotFoundError:
        raise SkippedError("Ray is not installed") from None
    folders = [arena.new_folder(), arena.new_folder()]
    for folder, attacked in zip(folders, (False, True), strict=True):
        ended, killed = _sweep_on_ray(arena.words(SWEEP, COMMANDS[name]), folder, attacked)
        what = f"Ray worker {killed} killed" if attacked else "on Ray"
        _check_error(ended, name, what, tally)
        if ended.code != 0:
            tally.note("lost", f"{name}, {what}: {ended.last_line}")
    if len({tuple(sorted(fingerprint(folder / "out").items())) for folder in folders}) > 1:
        tally.note("wrong", f"{name}, {what}")
    for folder in folders:
        arena.remove(folder)


def _sweep_on_ray(words: list[str], folder: Path, attacked: bool) -> tuple[Ended, int]:
    """Run a sweep on Ray, killing one of its processes; returns how it ended, and the process's number."""
    words = [sys.executable, "-m", "momentalign", *words, "--engine", "ray", "-o", "out"]
    words[words.index("--jobs") : words.index("--jobs") + 2] = []
    with tempfile.TemporaryFile() as printed:
        sweep = subprocess.Popen(words, cwd=folder, stdout=printed, stderr=subprocess.STDOUT)
        killed = 0
        while sweep.poll() is None:
            if attacked and not killed and list(folder.glob("out/*/records.jsonl")):
                killed = _kill_task(sweep.pid)
            time.sleep(0.05)
        printed.seek(0)
        return Ended(sweep.returncode, printed.read().decode(errors="replace")), killed


ATTACKS: dict[str, tuple[Attack, tuple[str, ...]]] = {
    "kill": (kill, tuple(COMMANDS)),
    "interrupt": (interrupt, tuple(COMMANDS)),
    "full disk": (fill_disk, tuple(name for name in COMMANDS if name not in _PROCESSES)),
    "read-only folder": (forbid_writing, tuple(COMMANDS)),
    "damaged result": (damage, tuple(name for name, command in COMMANDS.items() if command.checks)),
    "damaged after a kill": (damage_unfinished, ("probe", "train", "train with an average", "embed")),
    "twice at once": (run_twice_at_once, tuple(COMMANDS)),
    "full output device": (fill_output, tuple(name for name, command in COMMANDS.items() if command.checks)),
    "lost Ray worker": (lose_ray_worker, ("sweep",)),
}
"""Attacks by name, with the commands that they are made on."""


def _check_error(ended: Ended, name: str, what: str, tally: Tally) -> None:
    if ended.traceback:
        tally.note("tracebacks", f"{name}, {what}: {ended.last_line}")
    elif ended.code < 0:
        tally.note("lost", f"{name}, {what}: ended by signal {-ended.code}")
    elif ended.code not in (0, 1, 2):
        tally.note("wrong", f"{name}, {what}: exit code {ended.code}, {ended.last_line}")


def _same(arena: Arena, name: str, folder: Path) -> bool:
    return fingerprint(folder / COMMANDS[name].out) == arena.whole(name).files


@contextlib.contextmanager
def _small_disk(folder: Path) -> Iterator[bool]:
    """Mount a disk of 4 MiB; yields whether that was possible."""
    words = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=755", "soak", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(words, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def _fill(folder: Path, left: int) -> None:
    """Fill a disk but for some bytes."""
    free = os.statvfs(folder)
    with (folder / "filler").open("wb") as file:
        file.write(b"\0" * max(0, free.f_bavail * free.f_frsize - left))


def _processes() -> Iterator[int]:
    yield from (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())


def _parents(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        while pid > 1:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            yield pid


def _kill_task(ancestor: int) -> int:
    """Kill the first process that executes a task of Ray below a process, and return its number, or 0."""
    for pid in _processes():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::_task") and ancestor in _parents(pid):
                os.kill(pid, signal.SIGKILL)
                return pid
    return 0


def _wait_for_others(folder: Path, seconds: float = 60.0) -> None:
    """Wait for processes that work in a folder: workers of a killed sweep end when they notice."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        mine = False
        for pid in _processes():
            with contextlib.suppress(OSError):
                mine |= pid != os.getpid() and Path(f"/proc/{pid}/cwd").readlink() == folder
        if not mine:
            return
        time.sleep(0.2)
