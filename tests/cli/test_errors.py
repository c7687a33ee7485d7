"""Whatever goes wrong, a user reads one line."""

import errno

import pytest

from momentalign import cli


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("first\nsecond \x1b[31m"), r"Error: first second \x1b[31m"),
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
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"{line}\n"
