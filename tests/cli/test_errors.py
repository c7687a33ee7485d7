"""Errors are one line and exit code 2."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import momentalign
from momentalign import cli
from momentalign._signals import Terminated
from momentalign.cli._command import Command
from tests.runs.fake_sweep import write_fake_sweep

pytestmark = pytest.mark.slow


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
            "Error: out.html: No space left on device. Free some space and run the same command again.",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "Error: No space left on device. Free some space and run the same command again.",
        ),
    ],
)
def test_an_error_is_one_line(
    error: Exception, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setattr(cli, "user_location", lambda error: "")
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"{line}\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["probe", "--nonsense"], "Error: No such option: --nonsense"),
        (["probe", "--seed", "a\x1b[31m"], "Error: Invalid value for '--seed': "),
        (["evaluate"], "Error: Missing argument "),
        (["a\x1b[31m"], r"Error: No such command 'a\x1b[31m'"),
        (["data", "fetch"], "Error: Missing argument "),
        (["prob"], "Error: No such command 'prob'. Did you mean 'probe'? Try "),
    ],
)
def test_an_error_in_the_command_line_is_one_line(
    words: list[str], line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["momentalign", *words])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(line)
    assert printed.err.endswith(" --help'.\n")
    assert printed.err[:-1].isprintable()


@pytest.mark.parametrize("words", [[], ["data"]])
def test_no_arguments_print_help(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["momentalign", *words])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    printed = capsys.readouterr()
    assert "Usage: momentalign" in printed.out + printed.err
    assert "Error" not in printed.err


def test_a_file_that_ends_too_early_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise EOFError("Compressed file ended before the end")

    monkeypatch.setattr("momentalign.data.verify", fail)
    monkeypatch.setattr("sys.argv", ["momentalign", "data", "verify", "pacs", "--root", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("Error: A file ended too early: Compressed file ended before the end")


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise KeyError("bug")

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setattr(cli, "user_location", lambda error: "")
    with pytest.raises(KeyError, match="bug"):
        cli.main()


def test_an_error_in_user_code_names_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(
        "from momentalign.penalties import CMA\n"
        "class Broken(CMA):\n"
        "    def compute_terms(self, *_, **__):\n"
        "        raise ValueError('my own bug')\n"
        "class Unknown(CMA):\n"
        "    def compute_terms(self, *_, **__):\n"
        "        return undefined\n"
        "from momentalign.algorithms import ERM\n"
        "class Silent(ERM):\n"
        "    def update(self, batch, optimizers, backward):\n"
        "        super().update(batch, optimizers, backward)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for algorithm, expected in (
        ("mine:Broken", f"Error: my own bug ({tmp_path}/mine.py, line 4)"),
        ("mine:Unknown", f"Error: NameError: name 'undefined' is not defined ({tmp_path}/mine.py, line 7)"),
        ("mine:Silent", "Error: 'update' should return a dict of values to log, but returned None."),
        ("mine:Brocken", "Error: "),
    ):
        words = ["train", "colored-digits", "--algorithm", algorithm, "--steps", "3", "--out", str(tmp_path / "run")]
        monkeypatch.setattr("sys.argv", ["momentalign", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        assert stopped.value.code == 2
        last = capsys.readouterr().err.splitlines()[-1]
        assert last.startswith(expected)
    assert "line" not in last


@pytest.mark.parametrize(("kind", "code"), [(KeyboardInterrupt, 130), (Terminated, 143)])
def test_an_interrupted_command_prints_a_line(kind: type, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise kind

    command = Command("train", callback=interrupted)
    with pytest.raises(typer.Exit) as stopped:
        command.invoke(typer.Context(command))
    assert stopped.value.exit_code == code
    assert capsys.readouterr().err == "Interrupted.\n"


def test_nothing_heavy_is_imported_before_a_command_runs() -> None:
    program = "import sys, momentalign.cli; print(sorted({'torch', 'numpy', 'sklearn', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_version(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["momentalign", "--version"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"momentalign {momentalign.__version__}\n"


_TRAIN = ["train", "colored-digits", "--algorithm", "erm", "--steps", "2"]
_SWEEP = ["sweep", "colored-digits", "--algorithms", "erm", "--trials", "1", "--hparams", "1", "--steps", "2"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*_TRAIN, "--seed", "-1"], "'--seed' should be at least 0, but is -1"),
        ([*_TRAIN, "--seed", "0.5"], "'--seed'"),
        ([*_SWEEP, "--trials=-1"], "'--trials' should be at least 1, but is -1"),
        (_TRAIN, "runs is a file"),  # where the folder of all runs should be
        (_SWEEP, "runs is a file"),
        ([*_SWEEP, "--dry-run"], "runs is a file"),
        (["table", "sweep", "-o", "runs/table.csv"], "runs is a file"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "runs").write_text("not a folder")
    write_fake_sweep(tmp_path / "sweep", algorithms=("erm",), trials=1, hparams=1)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["momentalign", *words])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert sorted(tmp_path.rglob("*")) == before


def test_a_plan_is_the_same_in_a_narrow_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["momentalign", *_SWEEP, "--dry-run"])
    printed = []
    for columns in ("60", "300"):
        monkeypatch.setenv("COLUMNS", columns)
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        assert stopped.value.code == 0
        plan, engine, end = capsys.readouterr().out.splitlines()
        printed.append((plan, engine, end))
    assert printed[0] == printed[1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table", "runs", "--select", "luck"], "'--select' should be one of"),
        (["table", "none"], "none should be a folder of runs"),
        (["report", "none"], "none should be a folder of runs"),
        (["report", "runs", "-o", "report.pdf"], "'--out' should end in .html"),
    ],
)
def test_a_slip_is_answered_before_slow_imports(words: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    program = "import sys; from momentalign.cli import main\n"
    program += "try: main()\nexcept SystemExit: print(*({'torch', 'sklearn', 'altair'} & set(sys.modules)))"
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert message in done.stderr
    assert done.stdout.split() == []
