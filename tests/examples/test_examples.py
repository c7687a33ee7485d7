"""The examples change no more of a usual loop than they say. 'make docs' runs every one of them for the gallery."""

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("script", ["lightning_module.py", "huggingface_trainer.py"])
def test_two_lines_are_new(script: str) -> None:
    lines = (EXAMPLES / script).read_text().splitlines()
    assert [line.partition("#")[2].strip() for line in lines if "new line" in line] == [
        "first new line",
        "second new line",
    ]
