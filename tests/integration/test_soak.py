"""A few seconds of the attacks that `make soak` makes for minutes."""

import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs Linux")
def test_some_attacks_on_probe_are_survived() -> None:
    words = [sys.executable, "-m", "tests.soak", "--minutes", "0.05", "--only", "probe again,kill,damaged result"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"[1-9]\d* tried, 0 lost, 0 wrong, 0 tracebacks", done.stdout.splitlines()[-1])
