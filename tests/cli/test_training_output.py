import io
import warnings
from typing import Any

import pytest
from rich.console import Console

import momentalign
from momentalign.cli._training_output import Notes, said_of_annealing


def records(values: dict[int, float], split: str = "out") -> list[dict[str, Any]]:
    """Two training domains, ten points apart, and a test domain that does not count."""
    found = []
    for step, value in values.items():
        for domain, shift in (("a", 0.05), ("b", -0.05), ("test", -0.3)):
            found.append({"step": step, "domain": domain, "split": split, "metric": "accuracy", "value": value + shift})
            found.append({"step": step, "domain": domain, "split": "in", "metric": "accuracy", "value": 1.0})
        found.append({"step": step, "domain": None, "split": None, "metric": "loss", "value": 1.0})
    return found


def test_a_penalty_that_costs_much_is_named() -> None:
    run = records({0: 0.2, 200: 0.9, 400: 0.8, 600: 0.45})
    said = said_of_annealing(run, ("test",), {"anneal_steps": 300, "scaling": "classes"})
    assert said is not None
    assert "90.0% at step 200" in said
    assert "45.0% at the end" in said
    assert said.endswith("--set scaling=relative with weights near 1.")
    other = said_of_annealing(run, ("test",), {"anneal_steps": 300})
    assert other is not None
    assert "relative" not in other
    assert said_of_annealing(records({0: 0.9, 9: 0.2}, "val"), ("test",), {"anneal_steps": 5}) is not None


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
def test_otherwise_nothing_is_said(values: dict[int, float], hparams: dict[str, Any]) -> None:
    assert said_of_annealing(records(values), ("test",), hparams) is None


def test_only_our_own_warnings_are_notes() -> None:
    shown = io.StringIO()
    with Notes(Console(file=shown, width=200)):
        warnings.warn_explicit("of ours", UserWarning, f"{momentalign.__path__[0]}/data/_load.py", 1)
        warnings.warn_explicit("of ours", UserWarning, f"{momentalign.__path__[0]}/data/_load.py", 1)
        warnings.warn_explicit("of torch", UserWarning, "/home/me/momentalign/.venv/lib/torch/nn.py", 1)
    assert shown.getvalue() == "Note: of ours\n"
