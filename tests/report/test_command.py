import errno
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from momentalign.cli import app, main
from tests.runs.fake_sweep import write_fake_sweep

pytestmark = pytest.mark.slow


def test_page_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_fake_sweep(tmp_path / "runs", algorithms=("erm",), domains=("a", "b"), trials=1, hparams=1, failed=1)
    words = ["report", "runs", "-o", "deep/report.html", "--figures", "deep/figures", "--title", "Mine"]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    assert "2 runs, 1 finished. 1 problem found, listed on the page." in done.stdout
    assert "deep/report.html" in done.stdout
    assert "<h1>Mine</h1>" in (tmp_path / "deep" / "report.html").read_text()
    assert len(list((tmp_path / "deep" / "figures").iterdir())) % 3 == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere should be a folder of runs, but does not exist."),
        (["empty"], "holds no runs"),
        (["runs", "-o", "empty"], "'--out' should name a file, but empty is a folder."),
        (["runs", "--figures", "file"], "'--figures' should name a folder, but file is a file."),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_fake_sweep(tmp_path / "runs", algorithms=("erm",), domains=("a", "b"), trials=1, hparams=1)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["momentalign", "report", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "runs"]


@pytest.mark.parametrize("command", [["report"], ["report", "--figures", "figures"], ["table"]])
def test_a_full_disk_is_one_line_and_leaves_nothing(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path, content: bytes) -> None:
        wanted = "figures" if "--figures" in command else ""
        if wanted not in str(path):
            real(path, content)
            return
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    write_fake_sweep(tmp_path / "runs", algorithms=("erm",), domains=("a", "b"), trials=1, hparams=1)
    monkeypatch.chdir(tmp_path)
    real = Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", full)
    out = "out.txt" if command == ["table"] else "out.html"
    monkeypatch.setattr("sys.argv", ["momentalign", *command, "runs", "-o", out])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    (error,) = capsys.readouterr().err.strip().splitlines()
    assert re.fullmatch(
        r"Error: (out\..*|figures/.*): No space left on device\. Free some space and run the same command again\.",
        error,
    )
    left = [out, "runs"] if "--figures" in command else ["runs"]  # the page is whole
    assert sorted(path.name for path in tmp_path.iterdir()) == left


def test_a_missing_extra_is_answered_with_the_command_that_installs_it(tmp_path: Path) -> None:
    program = "import sys; sys.modules['altair'] = None; from momentalign.cli import main; main()"
    write_fake_sweep(tmp_path / "runs", algorithms=("erm",), domains=("a", "b"), trials=1, hparams=1)
    words = [sys.executable, "-c", program, "report", "runs"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert "pip install 'momentalign[cli,report]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
