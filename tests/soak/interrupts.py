"""Attack by Ctrl-C and SIGTERM: one line and an exit code, and the same command goes on."""

import os
import signal
import time
from contextlib import suppress

from tests.soak.arena import Arena, Tally
from tests.soak.children import Child, accept_interrupts, interrupted_at
from tests.soak.commands import COMMANDS


def interrupt(arena: Arena, name: str, tally: Tally) -> None:
    """Interrupt a command once or several times, at operations on files or at a time; run it again."""
    whole = arena.whole(name)
    folder = arena.new_folder(COMMANDS[name])
    how, times = arena.random.choice([signal.SIGINT, signal.SIGTERM]), arena.random.choice([1, 5])
    words = arena.words(COMMANDS[name].arguments, COMMANDS[name])
    if name == "sweep":  # works in other processes
        moment = arena.random.uniform(0.5, 12)
        what = f"{times} × {how.name} after {moment:.1f} s"
        child = Child(words, folder, [accept_interrupts])
        time.sleep(moment)
        for _ in range(times):
            with suppress(ProcessLookupError):
                os.kill(child.pid, how)
            time.sleep(0.02)
    else:
        number = arena.random.randrange(whole.ended.operations)
        what = f"{times} × {how.name} at operation {number} of {whole.ended.operations}"
        child = Child(words, folder, [interrupted_at(number, folder, how, times)])
    ended = child.wait()
    if ended.traceback:
        tally.note("tracebacks", f"{name}, {what}: {ended.last_line}")
    elif ended.code not in (0, 128 + how):
        tally.note("wrong", f"{name}, {what}: exit code {ended.code}, {ended.last_line}")
    arena.check_answers(name, folder, tally, what)
    arena.resume(name, folder, tally, what)
    arena.remove(folder)
