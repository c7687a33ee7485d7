"""README, Makefile and .ci/run agree, and the README prints what was recorded."""

import re
import shlex
from pathlib import Path

from benchmarks.readme import DEMO, RULES
from benchmarks.records import load_lines
from momentalign.sweep import make_plan

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def demo_options() -> dict[str, str]:
    """Options of the sweep that `make demo` runs."""
    words = shlex.split(next(line for line in MAKEFILE.splitlines() if "sweep colored-digits" in line))
    return dict(zip(words[3::2], words[4::2], strict=True))


def test_the_first_screen_says_what_and_has_both_commands() -> None:
    screen = README.splitlines()[:40]
    assert any(line.startswith("$ make demo") for line in screen)
    assert any(line.startswith("$ make test") for line in screen)
    introduction = README.split("<!-- begin demo -->")[0].partition("\n")[2]
    assert len(introduction.split()) <= 60
    assert len(README.split()) <= 900


def test_the_two_commands_are_targets_and_ci_calls_the_second() -> None:
    for target in ("demo", "test"):
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_the_demo_is_the_recorded_one() -> None:
    options = demo_options()
    names = options["--algorithms"].split(",")
    assert (tuple(names), int(options["--hparams"]), int(options["--trials"])) == (
        tuple(DEMO.algorithms),
        DEMO.hparams,
        DEMO.trials,
    )
    assert options["--select"] == RULES[1]
    plan = make_plan(["colored-digits"], names, rules=[RULES[1]], trials=DEMO.trials, hparams=DEMO.hparams)
    assert {run.hash() for run in plan.runs} <= {line["run"]["hash"] for line in load_lines("colored-digits")}
