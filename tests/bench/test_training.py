import pytest
import torch

from momentalign.bench._training import BENCHMARKED, training_plan, training_rows

pytestmark = pytest.mark.slow


def test_runs_are_timed_in_units_of_plain_training() -> None:
    rows = training_rows(torch.device("cpu"), "colored-digits", 4)
    assert [row.name for row in rows] == [*BENCHMARKED[:-2], "erm again", "cma again"]
    assert rows[0].time_ratio == 1
    for row in rows:
        assert row.seconds is not None
        assert row.seconds > 0
        assert "steps" in row.note
        assert "evaluation" in row.note


def test_the_plan_names_what_will_run() -> None:
    titles = [section.title for section in training_plan(torch.device("cuda"), quick=False)]
    assert titles[0] == "ColoredMNIST, 5001 steps, precision bf16"
    assert [section.title for section in training_plan(torch.device("cpu"), quick=True)] == ["ColoredDigits, 21 steps"]
