"""Every script of examples/ runs; those that take a number of steps run with few."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ARGUMENTS = {"colored_digits.py": ["--steps", "4", "--seed", "1"]}


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_runs(script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [str(script), *ARGUMENTS.get(script.name, [])])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out


def test_colored_digits_prints_each_held_out_domain(capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(EXAMPLES / "colored_digits.py"))["main"]
    main(["--steps", "2"])
    lines = capsys.readouterr().out.splitlines()
    starred = [line.split()[:2] for line in lines if "*" in line and line.startswith(("+", "-"))]
    assert starred == [[name, method] for name in ("+90%", "+80%", "-90%") for method in ("ERM", "CMA")]


def test_colored_digits_rejects_no_steps(capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(EXAMPLES / "colored_digits.py"))["main"]
    with pytest.raises(SystemExit) as exit_info:
        main(["--steps", "0"])
    assert exit_info.value.code == 2
    assert "should be at least 1, but is 0" in capsys.readouterr().err
