"""Every script of examples/ runs, and changes no more of a usual loop than it says."""

import re
import runpy
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
FRAMEWORKS = ("lightning_module.py", "huggingface_trainer.py")
OTHERS = sorted(path for path in EXAMPLES.glob("*.py") if path.name not in FRAMEWORKS)


@pytest.mark.parametrize("script", OTHERS, ids=lambda path: path.name)
def test_runs(script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("script", ["plain_loop.py", "lightning_module.py", "huggingface_trainer.py"])
def test_two_lines_are_new(script: str) -> None:
    lines = (EXAMPLES / script).read_text().splitlines()
    assert [line.partition("#")[2].strip() for line in lines if "new line" in line] == [
        "first new line",
        "second new line",
    ]


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*is deprecated:FutureWarning")  # Lightning's own use of torch
@pytest.mark.parametrize("script", FRAMEWORKS)
def test_frameworks_learn_and_report_each_domain(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / script))["main"]()
    lines = [line.rsplit(": ", 1) for line in capsys.readouterr().out.splitlines() if line.endswith("aligned")]
    reported = {name: [float(number) for number in re.findall(r"([\d.]+)%", rest)] for name, rest in lines}
    assert list(reported) == ["0", "15", "30", "45", "60", "75 (not seen)"]
    for plain, aligned in reported.values():
        assert min(plain, aligned) > 40  # of ten classes: a guess has 10
    assert reported["75 (not seen)"][1] > reported["75 (not seen)"][0] - 10  # no harm, but for the noise of 240 digits
