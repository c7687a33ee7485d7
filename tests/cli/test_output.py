import io
import warnings
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

import momentalign
from momentalign.cli._output import (
    ProgressLines,
    annealing_note,
    divergence_note,
    make_console,
    print_block,
    print_warnings,
    progress_bar,
    score_table,
    share_bar,
    splits_note,
)


def records(values: dict[int, float], split: str = "out") -> list[dict[str, Any]]:
    """Two training domains, ten points apart, and a test domain that does not count."""
    found = []
    for step, value in values.items():
        for domain, shift in (("a", 0.05), ("b", -0.05), ("test", -0.3)):
            found.append({"step": step, "domain": domain, "split": split, "metric": "accuracy", "value": value + shift})
            found.append({"step": step, "domain": domain, "split": "in", "metric": "accuracy", "value": 1.0})
        found.append({"step": step, "domain": None, "split": None, "metric": "loss", "value": 1.0})
    return found


def test_a_large_drop_through_the_penalty_is_noted() -> None:
    run = records({0: 0.2, 200: 0.9, 400: 0.8, 600: 0.45})
    note = annealing_note(run, ("test",), {"anneal_steps": 300, "scaling": "classes"})
    assert note is not None
    assert "from 90.0% at step 200" in note
    assert "45.0% at the end" in note
    assert note.endswith("--set scaling=relative with weights near 1.")
    other = annealing_note(run, ("test",), {"anneal_steps": 300})
    assert other is not None
    assert "relative" not in other
    assert annealing_note(records({0: 0.9, 9: 0.2}, "val"), ("test",), {"anneal_steps": 5}) is not None


@pytest.mark.parametrize(
    ("values", "hparams"),
    [
        ({0: 0.2, 200: 0.9, 600: 0.75}, {"anneal_steps": 300}),  # not much
        ({0: 0.9, 200: 0.4}, {"anneal_steps": 300}),  # before it set in
        ({0: 0.9, 200: 0.4}, {}),  # no penalty that waits
        ({0: 0.9, 200: 0.4}, {"anneal_steps": 0}),
        ({}, {"anneal_steps": 10}),
    ],
)
def test_no_annealing_note_otherwise(values: dict[int, float], hparams: dict[str, Any]) -> None:
    assert annealing_note(records(values), ("test",), hparams) is None


def losses(*values: float | None) -> list[dict[str, Any]]:
    """A run whose loss took these values at steps 0, 100 and so on; its accuracies are numbers throughout."""
    run = records({100 * k: 0.5 for k in range(len(values))})
    found = iter(values)
    return [record | {"value": next(found)} if record["metric"] == "loss" else record for record in run]


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_noted(value: float | None) -> None:
    note = divergence_note(losses(0.7, 0.6, value, value), {"lr": 1.0, "weight_decay": 0.1, "clip": 0.0})
    assert note == (
        "The run diverged: its loss was not finite by step 200, and the accuracies below are meaningless. "
        "Lower lr with --set; --set clip=1 limits the gradient."
    )


def test_advice_on_divergence_depends_on_the_hyper_parameters() -> None:
    hparams = {"lr": 1.0, "gradient_weight": 5000.0, "hessian_weight": 1000.0, "weight_decay": 0.1, "clip": 1.0}
    note = divergence_note(losses(None), hparams)
    assert note is not None
    assert note.endswith("Lower lr, or gradient_weight and hessian_weight, with --set.")
    without = divergence_note(losses(None), hparams | {"hessian_weight": 0.0, "clip": 0.0})
    assert without is not None
    assert without.endswith("Lower lr, or gradient_weight, with --set; --set clip=1 limits the gradient.")


def test_no_divergence_note_otherwise() -> None:
    assert divergence_note(losses(0.7, 0.6), {"lr": 1.0, "clip": 0.0}) is None
    assert divergence_note([], {}) is None


def test_only_our_own_warnings_are_notes() -> None:
    shown = io.StringIO()
    with print_warnings(Console(file=shown, width=200)):
        warnings.warn_explicit("of ours", UserWarning, f"{momentalign.__path__[0]}/data/_load.py", 1)
        warnings.warn_explicit("of ours", UserWarning, f"{momentalign.__path__[0]}/data/_load.py", 1)
        warnings.warn_explicit("of torch", UserWarning, "/home/me/momentalign/.venv/lib/torch/nn.py", 1)
    assert shown.getvalue() == "Note: of ours\n"


NASTY = "a\x1b[31m\u202eb\rc\nd[red]e[/red]:dog:\x9b"
SHOWN = r"a\x1b[31m\u202eb\rc\nd[red]e[/red]:dog:\x9b"


def test_names_are_printed_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    console = make_console()
    table = Table(NASTY, title=NASTY)
    table.add_row(NASTY)
    console.print(table)
    console.print(f"Domain {NASTY}", NASTY)
    print_block(console, f"first\n{NASTY}")
    printed = capsys.readouterr().out
    assert printed.count(SHOWN) == 5  # the last one is broken into two lines
    assert all(character.isprintable() or character == "\n" for character in printed)
    assert f"Domain {SHOWN} {SHOWN}\nfirst\n" in printed


def test_other_text_of_rich_and_bars_have_no_control_characters() -> None:
    console = make_console()
    console.file, console.width = io.StringIO(), 200
    console.print(Text(NASTY))
    bar = progress_bar(console)
    bar.add_task(NASTY)
    console.print(bar.get_renderable())
    records = [{"metric": "accuracy", "domain": NASTY, "split": NASTY, "value": 0.5}]
    console.print(score_table(records, [NASTY]))
    printed = console.file.getvalue()
    assert all(character.isprintable() or character == "\n" for character in printed)
    assert f"{SHOWN} *" in printed
    assert printed.count("[red]e[/red]:dog:") == 4


def test_columns_of_the_scores_are_explained() -> None:
    records = [{"metric": "accuracy", "domain": "Bern", "split": split, "value": 0.5} for split in ("in", "out")]
    assert splits_note(records, ["Bern"]) == "in: the rows trained on, in domains without *. out: held-out rows."
    assert splits_note(records, []) == "in: the rows trained on. out: held-out rows."
    assert splits_note(records[1:], []) is None


@pytest.mark.parametrize("is_terminal", [False, True])
def test_lines_of_progress_where_there_is_no_bar(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 10.0, 40.0, 50.0, 80.0, 90.0])
    monkeypatch.setattr("momentalign.cli._output.time.monotonic", lambda: next(clock))
    console = Console(file=io.StringIO(), force_terminal=is_terminal)
    lines = ProgressLines(console)
    for share in (0.2, 0.4, 0.5, 0.8, 0.8):  # a fifth was done before
        lines.update("3 of 5 runs", share)
    said = ["3 of 5 runs: 40% done, about 2 min left.", "3 of 5 runs: 80% done, about 27 s left."]
    assert console.file.getvalue().splitlines() == ([] if is_terminal else said)  # type: ignore[attr-defined]


def test_parts_are_printed_where_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("momentalign.cli._output._LINE_SECONDS", 0.0)
    console = Console(file=io.StringIO())
    with share_bar(console) as update:
        for share in (0.0, 0.5, 1.0):
            update("bounds", share)
    said: str = console.file.getvalue()  # type: ignore[attr-defined]
    assert said.startswith("bounds: 50% done, about ")
    assert len(said.strip().splitlines()) == 1
