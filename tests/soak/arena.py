"""A folder in which commands are run undisturbed once, and attacked many times."""

import random
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.children import Ended, Prepare, run
from tests.soak.commands import COMMANDS, Command, Fingerprint, fingerprint, write_inputs

_INCOMPLETE = ("nfinished", "not finished", ": failed (The disk of ")
"""What says, beside an answer, that a run is not in it."""


class SoakError(Exception):
    """A command that fails without any attack."""


@dataclass
class Tally:
    """What came of one kind of attack on one command."""

    tried: int = 0
    lost: int = 0
    wrong: int = 0
    tracebacks: int = 0
    seconds: float = 0.0
    skipped: str | None = None
    notes: list[str] = field(default_factory=list)

    def note(self, kind: str, text: str) -> None:
        """Count a failure."""
        setattr(self, kind, getattr(self, kind) + 1)
        self.notes.append(f"{kind}: {text}")


@dataclass(frozen=True)
class Whole:
    """An undisturbed result: its files, the answers of the commands that read it, and how it ended."""

    files: Fingerprint
    answers: tuple[bytes, ...]
    ended: Ended


class Arena:
    """Runs commands in new folders below `root`, and remembers their undisturbed results."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.random = root, random.Random(seed)
        self._whole: dict[str, Whole] = {}
        self._number = 0
        write_inputs(root / "inputs")

    def new_folder(self, command: Command | None = None) -> Path:
        """A new folder, with what a command expects in its output."""
        self._number += 1
        folder = self.root / f"attack-{self._number}"
        folder.mkdir()
        if command is not None:
            self.put_before(command, folder)
        return folder

    def put_before(self, command: Command, folder: Path) -> None:
        """Put what a command expects into its output."""
        if command.before is not None:
            self.copy_result(command.before, folder)

    def copy_result(self, name: str, folder: Path) -> None:
        """Copy the undisturbed output of a command into a folder, in place of what is there."""
        self.whole(name)
        out = COMMANDS[name].out
        shutil.rmtree(folder / out, ignore_errors=True)
        source = self._result(name) / out
        if source.is_dir():
            shutil.copytree(source, folder / out)
        else:
            shutil.copyfile(source, folder / out)

    def _result(self, name: str) -> Path:
        return self.root / "results" / name.replace(" ", "-")

    def words(self, words: Sequence[str], command: Command) -> list[str]:
        """Fill in the inputs' and the output's paths."""
        paths = {"INPUTS": self.root / "inputs", "RESULTS": self.root / "results"}
        filled = [command.out if word == "OUT" else word for word in words]
        for name, path in paths.items():
            filled = [word.replace(name, str(path), 1) if word.startswith(name) else word for word in filled]
        return filled

    def run(self, name: str, folder: Path, *prepare: Prepare) -> Ended:
        """Run a command in a folder."""
        command = COMMANDS[name]
        return run(self.words(command.arguments, command), folder, *prepare)

    def answers(self, name: str, folder: Path) -> list[tuple[Ended, bytes]]:
        """How the commands that read the output end, and what they write."""
        command, found = COMMANDS[name], []
        for words in command.checks:
            ended = run(self.words(words, command), folder)
            answer = folder / "answer.csv"
            found.append((ended, answer.read_bytes() if answer.exists() else b""))
            answer.unlink(missing_ok=True)
        return found

    def whole(self, name: str) -> Whole:
        """The undisturbed result of a command, made the first time."""
        if name not in self._whole:
            command = COMMANDS[name]
            for other in command.reads:
                self.whole(other)
            folder = self._result(name)
            folder.mkdir(parents=True)
            self.put_before(command, folder)
            ended = self.run(name, folder)
            answers = self.answers(name, folder)
            for one in (ended, *(end for end, _ in answers)):
                if one.code != 0:
                    raise SoakError(f"{name} fails without any attack: {one.last_line}")
            files = fingerprint(folder / command.out)
            self._whole[name] = Whole(files, tuple(answer for _, answer in answers), ended)
        return self._whole[name]

    def resume(self, name: str, folder: Path, tally: Tally, what: str) -> None:
        """Run a command again after an attack, and compare its result with the undisturbed one."""
        ended = self.run(name, folder)
        if ended.traceback:
            tally.note("tracebacks", f"{name}, {what}, run again: {ended.last_line}")
        files, wanted = fingerprint(folder / COMMANDS[name].out), self.whole(name).files
        if ended.code != 0 and files != wanted:  # what is complete may be refused
            tally.note("lost", f"{name}, {what}, run again: {ended.last_line}")
        elif files != wanted:
            differing = sorted(file for file in {*files, *wanted} if files.get(file) != wanted.get(file))
            tally.note("wrong", f"{name}, {what}, run again: {', '.join(differing[:5])} differ")

    def check_answers(self, name: str, folder: Path, tally: Tally, what: str, damaged: str = "") -> None:
        """What reads the output has to answer as before or after the command, or say in one line why not.

        `damaged` is the name of a damaged file, which the line, or a line beside another answer, has to name.
        """
        allowed = [self.whole(name).answers]
        allowed += [self.whole(other).answers for other in COMMANDS[name].reads if COMMANDS[other].checks]
        for number, (ended, answer) in enumerate(self.answers(name, folder)):
            says = f"{name}, {what}, read: {ended.last_line}"
            if ended.traceback:
                tally.note("tracebacks", says)
            elif ended.code < 0:
                tally.note("lost", says)
            elif ended.code == 0 and answer not in [answers[number] for answers in allowed if number < len(answers)]:
                if damaged and damaged in ended.output:
                    continue
                whole = self.whole(name).answers[number]
                if COMMANDS[name].several and set(answer.splitlines()) <= set(whole.splitlines()):
                    continue
                if not damaged and any(words in ended.output for words in _INCOMPLETE):
                    continue
                tally.note("wrong", says)
            elif ended.code != 0 and damaged and damaged not in ended.output:
                tally.note("wrong", f"{says} (does not name {damaged})")

    def remove(self, folder: Path) -> None:
        """Remove an attacked folder."""
        with suppress(OSError):
            shutil.rmtree(folder)
