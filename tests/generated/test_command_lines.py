"""Generated command lines: exit code 0, or 2 and one line; no traceback, and nothing half-written."""

import contextlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from PIL import Image

from momentalign import cli
from tests.generated.cases import LostError, cases
from tests.generated.strategies.commands import COMMANDS, command_lines
from tests.runs.fake_sweep import make_config, record, write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working folder, with a table, damaged ones, pictures and a run."""
    root = tmp_path_factory.mktemp("commands")
    draws = np.random.default_rng(0)
    frame = pd.DataFrame({"x": draws.normal(size=24), "z": draws.normal(size=24), "y": [*"ab"] * 12})
    frame.assign(domain=[*"stu"] * 8).to_csv(root / "good.csv", index=False)
    frame.head(2).assign(domain="s").to_csv(root / "few.csv", index=False)
    (root / "bad.csv").write_bytes(b"x,y,domain\n1,\xff,s\n")
    np.savez(root / "odd.npz", X=np.array([{}], dtype=object), allow_pickle=True)
    with tarfile.open(root / "cut.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("a"), io.BytesIO())
    (root / "cut.tar.gz").write_bytes((root / "cut.tar.gz").read_bytes()[:40])
    (root / "empty").mkdir()
    for domain in "st":
        for label in "ab":
            (root / "pictures" / domain / label).mkdir(parents=True)
            for number in range(3):
                Image.new("RGB", (8, 8), (80 * number, 0, 0)).save(root / "pictures" / domain / label / f"{number}.png")
    records = [
        record(step, "accuracy", 0.5, domain, split)
        for step in (0, 100)
        for domain in ("+90%", "+80%", "-90%")
        for split in ("in", "out")
    ]
    write_run(root / "runs", make_config(steps=101), records, name="one")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("MOMENTALIGN_DATA", str(root / "data"))
        patch.setenv("COLUMNS", "200")
        yield root


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def run(words: list[str]) -> tuple[object, str, str]:
    """Exit code, output and errors of a command line."""
    out, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        patch.setattr("sys.argv", ["momentalign", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
    return stopped.value.code, out.getvalue(), errors.getvalue()


@pytest.mark.filterwarnings("ignore")
@cases(data=st.data())
@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_command_lines(names: tuple[str, ...], folder: Path, data: st.DataObject) -> None:
    words = data.draw(command_lines(names))
    before = contents(folder)
    code, out, errors = run(words)
    after = contents(folder)
    assert code in (0, 2), (words, code, out, errors)
    shown = [line for line in errors.splitlines() if not line.startswith("Note: ")]
    assert all(character.isprintable() or character == "\n" for character in out + errors), (words, out, errors)
    if code == 2:
        assert len(shown) == 1, (words, errors)
        assert shown[0].startswith("Error: "), (words, errors)
        assert len(shown[0]) > 20, (words, errors)
        assert shown[0].endswith((".", "?", ")", "'", "…")), (words, errors)
    if (code == 2 or "--dry-run" in words) and after != before:
        raise LostError(words, errors, set(after) ^ set(before))
    for path in sorted(set(after) - set(before), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for path, content in before.items():
        if after.get(path) != content:
            path.write_bytes(content)
