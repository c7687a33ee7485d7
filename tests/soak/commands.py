"""The commands that are attacked, their inputs, and what of their results has to be identical."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from momentalign._files import is_leftover

_VOLATILE = ("started", "finished", "seconds", "versions")
"""Keys of JSON files that depend on the time."""
_MEASURED = ("step_seconds", "memory_gib", "peak_memory_gib")
"""Metrics that are measured."""

Fingerprint = dict[str, bytes]


@dataclass(frozen=True)
class Command:
    """A command to attack.

    Args:
        arguments: Words after `momentalign`; OUT stands for its output.
        out: Name of its output, a file or folder.
        before: Command whose output is there first.
        checks: Commands that read the output: same answer as before or after, or one line.
        reads: Inputs in the form of other commands' outputs, by name of the command.
        several: Whether the output holds several results, each of them whole: an answer may be about the first of them.
    """

    arguments: tuple[str, ...]
    out: str = "out"
    before: str | None = None
    checks: tuple[tuple[str, ...], ...] = ()
    reads: tuple[str, ...] = field(default=())
    several: bool = False


TRAIN = ("train", "INPUTS/three.csv", "--test-domain", "Biel", "--set", "batch_size=8", "--device", "cpu")
TRAIN += ("--steps", "7", "--record-every", "2", "--checkpoint-every", "1")
SWEEP = ("sweep", "INPUTS/three.csv", "--algorithms", "erm", "--trials", "1", "--hparams", "2", "--steps", "4")
SWEEP += ("--record-every", "2", "--test-domains", "Biel", "--jobs", "1", "--device", "cpu")

COMMANDS: Mapping[str, Command] = {
    "probe": Command(
        ("probe", "INPUTS/two.csv", "-o", "OUT"),
        checks=(("probe", "--model", "OUT", "--predict", "INPUTS/new.csv", "-o", "answer.csv"),),
    ),
    "probe again": Command(
        ("probe", "INPUTS/two.csv", "--target", "z", "--overwrite", "-o", "OUT"),
        before="probe",
        checks=(("probe", "--model", "OUT", "--predict", "INPUTS/new.csv", "-o", "answer.csv"),),
        reads=("probe",),
    ),
    "data groups": Command(
        (
            "data",
            "groups",
            "INPUTS/images",
            "--classes",
            "cat,dog",
            "--domains",
            "day,night",
            "--share",
            "0.6",
            "-o",
            "OUT",
        )
    ),
    "data groups of a table": Command(
        (
            "data",
            "groups",
            "INPUTS/two.csv",
            "--classes",
            "no,yes",
            "--domains",
            "Basel,Bern",
            "--share",
            "0.6",
            "-o",
            "OUT",
        )
    ),
    "train": Command((*TRAIN, "-o", "OUT"), checks=(("evaluate", "OUT", "INPUTS/three.csv", "-o", "answer.csv"),)),
    "train with an average": Command(
        (*TRAIN, "--average", "ema", "--keep", "training-domain", "-o", "OUT"),
        checks=(("evaluate", "OUT", "INPUTS/three.csv", "-o", "answer.csv"),),
    ),
    "embed": Command(
        ("embed", "INPUTS/three.csv", "--encoder", "RESULTS/train/out", "--batch-size", "50", "-o", "OUT"),
        out="out.parquet",
        reads=("train",),
    ),
    "sweep": Command((*SWEEP, "-o", "OUT"), checks=(("table", "OUT", "-o", "answer.csv"),)),
    "soup": Command(
        ("soup", "RESULTS/sweep/out", "-o", "OUT", "--device", "cpu"),
        checks=(("table", "OUT", "-o", "answer.csv"),),
        reads=("sweep",),
        several=True,
    ),
}


def write_inputs(folder: Path) -> None:
    """Write the inputs of all commands."""
    folder.mkdir()
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(80, 3)), columns=["a", "b", "c"])
    frame["y"] = np.where(frame["b"] + random.normal(size=80) > 0, "yes", "no")
    frame["z"] = np.where(frame["c"] + random.normal(size=80) > 0, "no", "yes")
    frame["domain"] = np.repeat(["Basel", "Bern"], 40)
    frame.to_csv(folder / "two.csv", index=False)
    frame[["a", "b", "c", "y", "z"]].iloc[::3].to_csv(folder / "new.csv", index=False)
    domains = np.repeat(["Basel", "Bern", "Biel"], 100)
    frame = pd.DataFrame(random.normal(size=(300, 3)), columns=["a", "b", "c"])
    frame.assign(y=np.where(frame["a"] > 0, "yes", "no"), domain=domains).to_csv(folder / "three.csv", index=False)
    for domain in ("day", "night"):
        for label in ("cat", "dog"):
            (folder / "images" / domain / label).mkdir(parents=True)
            for number in range(8):
                pixels = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / "images" / domain / label / f"{number}.png")


def fingerprint(path: Path) -> Fingerprint:
    """Content of a file or of all files of a folder, without times and what kills may leave for an hour."""
    if not path.is_dir():
        return {"": path.read_bytes()} if path.exists() else {}
    found: Fingerprint = {}
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path)
        if file.is_file() and not any(is_leftover(Path(part)) or part == ".lock" for part in name.parts):
            found[name.as_posix()] = _content(file)
    return found


def _content(file: Path) -> bytes:
    content = file.read_bytes()
    if file.name == "records.jsonl":
        lines = [json.loads(line) for line in content.splitlines()]
        return json.dumps([line for line in lines if line["metric"] not in _MEASURED]).encode()
    if file.suffix == ".json":
        values = json.loads(content)
        return json.dumps({key: value for key, value in values.items() if key not in _VOLATILE}).encode()
    return content
