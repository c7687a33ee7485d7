from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from momentalign.tables import fit_encoder, plan_diagnosis, plan_probe
from momentalign.tables._leaks import describe_leaks

RNG = np.random.default_rng(0)
LABELS = RNG.permutation(np.repeat([0, 1, 2], [60, 30, 10]))


def leaks(values: Any, targets: Any = LABELS, *, numbers: bool = False, others: int = 0) -> list[str]:
    frame = pd.DataFrame({"column": values, **{f"x{k}": RNG.normal(size=len(targets)) for k in range(1, 1 + others)}})
    return describe_leaks(frame, fit_encoder(frame)[0].columns, np.asarray(targets), "outcome", numbers=numbers)


@pytest.mark.parametrize(
    "values",
    [
        LABELS,
        LABELS * 2.5 - 1,
        np.array(["ill", "well", "unknown"])[LABELS],
        np.where(np.arange(100) % 7 == 0, np.nan, LABELS),
        3 * RNG.integers(5, size=100) + LABELS,
    ],
    ids=["equal", "other numbers", "names", "with missing values", "several values a class"],
)
def test_a_column_that_determines_the_class_is_named(values: Any) -> None:
    assert leaks(values, others=3) == [
        "Warning: 'column' gives 'outcome' away: rows with the same value always have the same label. Remove the "
        "column from the file, unless new rows have it before their label is known."
    ]


def test_several_columns_are_named_in_one_sentence() -> None:
    frame = pd.DataFrame({"a": LABELS, "b": -LABELS, "c": RNG.normal(size=100)})
    (sentence,) = describe_leaks(frame, fit_encoder(frame)[0].columns, LABELS, "y", numbers=False)
    assert "'a', 'b' give 'y' away" in sentence
    assert "Remove such columns" in sentence


@pytest.mark.parametrize(
    "values",
    [
        np.arange(100),
        RNG.normal(size=100),
        np.where(LABELS == 0, 0.0, RNG.normal(size=100)),
        np.where(np.arange(100) == 0, 1 - LABELS, LABELS),
        RNG.integers(3, size=100),
        np.where(LABELS == 2, 1, 0),
    ],
    ids=["identifiers", "continuous", "zero or continuous", "one row differs", "unrelated", "one class only"],
)
def test_other_columns_are_not_named(values: Any) -> None:
    assert not leaks(values, others=3)


def test_a_rare_class_agrees_by_chance() -> None:
    targets = np.zeros(1000, dtype=np.int64)
    targets[:2] = 1
    values = np.arange(1000) // 2
    assert not leaks(values, targets)
    assert not leaks(np.zeros(10, dtype=int) + LABELS[:10], LABELS[:10], others=5)  # too few rows


def test_all_rows_are_compared_if_a_sample_agrees() -> None:
    targets = np.tile([0, 1], 15_000)
    values = targets.copy()
    assert leaks(values, targets)
    values[4] = 1 - values[4]
    assert not leaks(values, targets)


def test_a_multiple_of_a_number_is_named() -> None:
    targets = RNG.normal(size=100)
    for copy in (targets, 1e149 - 1e148 * targets, 1e-200 * targets, targets + 1e-4 * RNG.normal(size=100)):
        (sentence,) = leaks(copy, targets, numbers=True, others=1)
        assert sentence.startswith("Warning: 'column' gives 'outcome' away: a correlation of 0.9999 or more.")
    assert leaks(targets, 1e307 * targets, numbers=True)
    assert not leaks(targets + 0.1 * RNG.normal(size=100), targets, numbers=True)
    assert not leaks(targets, np.ones(100), numbers=True)
    assert not leaks(targets[:9], targets[:9], numbers=True)
    assert not leaks(RNG.choice(["a", "b"], 100), targets, numbers=True)


def test_plans_of_diagnose_and_probe_warn(tmp_path: Path) -> None:
    frame = pd.DataFrame(RNG.normal(size=(100, 2)), columns=["a", "b"])
    frame["dose"] = frame["a"] + RNG.normal(size=100)
    frame["y"], frame["site"] = LABELS, ["north", "south"] * 50
    frame.assign(code=10 - LABELS, mg=1000 * frame["dose"]).to_csv(tmp_path / "leak.csv", index=False)
    frame.to_csv(tmp_path / "clean.csv", index=False)
    for plan in (plan_diagnosis, plan_probe):
        for target, column in (("y", "code"), ("dose", "mg")):
            (warning,) = [
                line for line in plan(tmp_path / "leak.csv", target=target, domain="site").lines if "Warning" in line
            ]
            assert f"'{column}' gives '{target}' away" in warning
            assert not any(
                "Warning" in line for line in plan(tmp_path / "clean.csv", target=target, domain="site").lines
            )
