"""Attacks on whole commands: kills, full disks, read-only folders, damaged files, two processes, a lost Ray worker.

`python -m tests.soak --minutes 5 --seed 0` attacks each command in each way, again and again while there is time, runs
the same command again, compares bit by bit with an undisturbed result, and prints what was tried and survived. The exit
code is 1 if anything was lost, wrong or ended in a traceback.
"""

import argparse
import importlib
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path

import torch

from tests.soak.arena import Arena, Tally
from tests.soak.attacks import ATTACKS, SkippedError
from tests.soak.commands import COMMANDS


def main(arguments: list[str] | None = None) -> int:
    """Attack until the time is over and each kind has been tried on each command."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="least time; every pair is tried once even so")
    parser.add_argument("--seed", type=int, default=0, help="of the moments, files and bits")
    parser.add_argument("--only", default="", help=f"commands or attacks, separated by commas: {_names()}")
    options = parser.parse_args(arguments)
    chosen = [name.strip() for name in options.only.split(",") if name.strip()]
    if unknown := set(chosen) - {*ATTACKS, *COMMANDS}:
        parser.error(f"--only should name some of {_names()}, but names {', '.join(sorted(unknown))}.")
    commands, attacks = ([name for name in names if name in chosen] or list(names) for names in (COMMANDS, ATTACKS))
    pairs = [(kind, name) for kind in attacks for name in ATTACKS[kind][1] if name in commands]
    _import_everything()
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="momentalign-soak-") as folder:
        Path(folder).chmod(0o755)
        arena = Arena(Path(folder), options.seed)
        arena.random.shuffle(pairs)
        tallies = {pair: Tally() for pair in pairs}
        for number, (kind, name) in enumerate(cycle(pairs)):
            over = time.monotonic() - start > 60 * options.minutes or not _possible(tallies)
            if number >= len(pairs) and over:
                break
            _attack(arena, kind, name, tallies[kind, name])
    return _print_tallies(tallies, time.monotonic() - start)


def _attack(arena: Arena, kind: str, name: str, tally: Tally) -> None:
    if tally.skipped is not None:
        return
    begin, before = time.monotonic(), len(tally.notes)
    try:
        ATTACKS[kind][0](arena, name, tally)
    except SkippedError as reason:
        tally.skipped = str(reason)
        return
    tally.tried += 1
    tally.seconds += time.monotonic() - begin
    for note in tally.notes[before:]:
        print(note, flush=True)


def _print_tallies(tallies: dict[tuple[str, str], Tally], seconds: float) -> int:
    columns = ("tried", "lost", "wrong", "tracebacks")
    print(f"{'attack':<22}{'command':<26}" + "".join(f"{name:>12}" for name in columns) + f"{'s each':>9}")
    for (kind, name), tally in sorted(tallies.items()):
        values = "".join(f"{getattr(tally, column):>12}" for column in columns)
        each = f"{tally.seconds / tally.tried:>9.1f}" if tally.tried else f"{'–':>9}"
        print(f"{kind:<22}{name:<26}{values}{each}" + (f"  skipped: {tally.skipped}" if tally.skipped else ""))
    totals = {column: sum(getattr(tally, column) for tally in tallies.values()) for column in columns}
    print(f"{seconds:.0f} s")
    print(", ".join(f"{number} {column}" for column, number in totals.items()))
    return int(any(totals[column] for column in columns[1:]))


def _possible(tallies: dict[tuple[str, str], Tally]) -> bool:
    return any(tally.skipped is None for tally in tallies.values())


def _import_everything() -> None:
    """Import what the children need once, before they are forked."""
    for name in ("cli", "data", "encoders", "report", "selection", "sklearn", "sweep", "tables", "training"):
        module = importlib.import_module(f"momentalign.{name}")
        for public in getattr(module, "__all__", ()):
            getattr(module, public)
    # What others import when they are first used. Children without rights may not be able to read it.
    for name in ("multiprocessing.synchronize", "sklearn.datasets", "torch._dynamo", "pyarrow.csv"):
        importlib.import_module(name)
    torch.set_num_threads(1)


def _names() -> str:
    return ", ".join([*COMMANDS, *ATTACKS])


if __name__ == "__main__":
    sys.exit(main())
