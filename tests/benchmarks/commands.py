"""What the tests of the studies' commands share."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest


def assert_refused(
    main: Callable[[], int],
    arguments: Sequence[str],
    message: str,
    folder: Path,
    patch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A command without a data folder ends with exit code 2 and a message, and leaves the folder empty."""
    patch.chdir(folder)
    patch.setattr(sys, "argv", ["command", *arguments])
    patch.delenv("MOMENTALIGN_DATA", raising=False)
    try:
        code: object = main()
    except SystemExit as stopped:  # the parser's own
        code = stopped.code
    assert code == 2
    assert message in capsys.readouterr().err
    assert list(folder.iterdir()) == []
