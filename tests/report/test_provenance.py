"""Where the numbers of the page come from: values of many runs in one cell, and counts of runs."""

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from momentalign.report._provenance import (
    _distinct,
    _range,
    configurations,
    missing_runs,
    recorded_versions,
    run_counts,
)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.5, 0.5, 0.5], "0.5"),
        ([3, 1, 2, 1], "3, 1, 2"),
        ([1, 2, 3, 4], "1, 2, 3, 4"),
        ([0.001, 1.0, 10.0, 5.0, 100.0, 5.0], "0.001 to 100 (5 values)"),
        ([1 / 3, "classes"], "0.3333, classes"),
        ([True, False, True], "True, False"),
        (list("abcdefgh"), "a, b, c, d, e, f, g, h"),
        (list("abcdefghi"), "a, b, c, d, e, f, g, h …"),
        ([1, 2, 3, 4, "five"], "1, 2, 3, 4, five"),
    ],
)
def test_hyperparameters_are_listed_while_they_are_few_and_a_range_of_numbers_then(values: list, text: str) -> None:
    assert _range(values) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (["adam", "adam"], "adam"),
        ([None, None], "not recorded"),
        (["adam", "sgd", None, "sgd"], "sgd (2 runs), adam (1 run), not recorded (1 run)"),
        (list("aabbccddeeff"), ", ".join(f"{name} (2 runs)" for name in "abcdef")),
        (list("aabbccddeeffg"), ", ".join(f"{name} (2 runs)" for name in "abcdef") + " …"),
    ],
)
def test_values_of_several_runs_come_with_their_number(values: list, text: str) -> None:
    assert _distinct(values) == text


RUNS = pd.DataFrame(
    [
        ("ERM", "finished", 0, 0, {"lr": 0.1}, {"torch": "2.9"}),
        ("ERM", "finished", 0, 1, {"lr": 0.2}, {"torch": "2.9"}),
        ("ERM", "failed", 1, 0, {"lr": 0.1}, {"torch": "2.9"}),
        ("CMA", "running", 0, 0, {"lr": 0.1, "weight": 5.0}, {}),
        ("LogisticRegression", "finished", 0, 0, {}, {"torch": "2.9"}),
    ],
    columns=["method", "status", "trial", "hparams_seed", "hparams", "versions"],
).assign(
    test_domains=[["a"]] * 5,
    classes=[["cat", "dog"]] * 5,
    features=[{}, {}, {}, {}, {"dataset": "birds", "encoder": "clip"}],
    config=[{"dataset": "x", "record_every": 10, "encoder": "resnet18"}] * 4 + [{"record_every": 20}],
    device="cpu",
)  # fmt: skip


def group(setting: str = "finetune") -> Any:
    case = SimpleNamespace(title="toy", setting=setting, domains=("a", "b"), runs=RUNS)
    diverged = pd.Series({1: 200})
    sweep = SimpleNamespace(runs=RUNS, diverged=lambda: diverged)
    return SimpleNamespace(cases=[case], methods=("LogisticRegression", "ERM", "CMA", "IRM"), sweep=sweep)


def test_runs_are_counted_by_state_and_by_what_other_methods_have() -> None:
    assert run_counts(group()) == [
        ("method", "toy"),
        ("LogisticRegression", "1 finished, 1 missing"),  # one set is all it has, of either trial
        ("ERM", "2 finished (1 diverged), 1 failed"),
        ("CMA", "1 running, 2 missing"),
        ("IRM", "none"),
    ]
    assert missing_runs(group("probe").cases[0]) == {}


@pytest.mark.parametrize("setting", ["finetune", "probe"])
def test_settings_that_runs_share_and_hyperparameters_of_each_method(setting: str) -> None:
    (found,) = configurations(group(setting))
    shared = dict(found["shared"])
    assert shared.pop("encoder", None) == (None if setting == "probe" else "resnet18 (4 runs), default (1 run)")
    assert shared == {
        "domains": "a, b",
        "trials": "0, 1",
        "sets of hyper-parameters": "2",
        "classes": "cat, dog",
        "features of": "birds, by clip",
        "record every": "10 (4 runs), 20 (1 run)",
    }
    assert found["hparams"] == [("ERM", "lr", "0.1, 0.2"), ("CMA", "lr", "0.1"), ("CMA", "weight", "5")]
    assert recorded_versions(group()) == [("torch", "2.9 (4 runs), not recorded (1 run)"), ("device", "cpu")]
