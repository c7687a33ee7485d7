"""Whatever goes wrong, a user reads one line."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from momentalign import cli


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("first\n  second:\n\n\tthird \x1b[31m"), r"Error: first. second: third \x1b[31m"),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "a.csv"),
            "Error: a.csv: No such file or directory.",
        ),
        (OSError("The disk is full. Make room."), "Error: The disk is full. Make room."),
        (
            OSError(errno.ENOSPC, "No space left on device", "out.html"),
            "Error: out.html: No space left on device. Make room and run the same command again.",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "Error: No space left on device. Make room and run the same command again.",
        ),
    ],
)
def test_an_error_is_one_line(
    error: Exception, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setattr(cli, "_place", lambda error: "")
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"{line}\n"


def test_an_error_in_ones_own_code_says_where(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from momentalign.penalties import CMA\n"
        "class Broken(CMA):\n"
        "    def _terms(self, *_, **__):\n"
        "        raise ValueError('my own bug')\n"
    )
    words = ["train", "colored-digits", "--algorithm", "mine:Broken", "--steps", "3", "--out", str(tmp_path / "run")]
    for algorithm, expected in (
        ("mine:Broken", f"Error: my own bug ({tmp_path}/mine.py, line 4)"),
        ("mine:Brocken", "Error: "),
    ):
        words[3] = algorithm
        done = subprocess.run(
            [sys.executable, "-m", "momentalign", *words],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": str(tmp_path), "COLUMNS": "300"},
        )
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith(expected)
    assert "line" not in done.stderr


def test_an_interruption_before_a_command_can_speak(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "Interrupted.\n"
