from dataclasses import replace

import numpy as np
import pytest

from benchmarks.selection.curves import Curves, sweep_curves, tuning_curves
from benchmarks.selection.rules import choose, rules
from benchmarks.selection.tables import tables


def colour_and_shape() -> list[Curves]:
    """Two records of a run: the first classifies by colour, which the test domain turns round, the second by shape."""
    return [
        Curves(
            cell=("colours", "erm", "-90%", 0),
            steps=np.array([500, 1000]),
            accuracy=np.array([[0.9, 0.8], [0.73, 0.72]]),
            loss=np.array([[0.3, 0.5], [0.58, 0.59]]),
            gaps={"gradient": np.array([0.2, 0.0]), "hessian": np.array([0.1, 0.0])},
            rows=np.array([5000, 5000]),
            test=np.array([0.1, 0.7]),
            test_out=np.array([0.1, 0.7]),
        )
    ]


@pytest.mark.parametrize(
    ("rule", "test"),
    [
        ("mean accuracy (training-domain)", 10),
        ("mean accuracy, last record", 70),
        ("range, λ = 0", 10),
        ("range, λ = 2", 70),
        ("range, λ = 2, z = 0", 70),
        ("sum over domains, λ = 2", 70),
        ("losses, λ = 0", 10),
        ("losses, λ = 2", 70),
        ("mean − 0.3 · gradient gap", 10),
        ("mean − 1 · gradient gap", 70),
        ("oracle (labels of the test domain, last record)", 70),
    ],
)
def test_rules_choose_colour_or_shape(rule: str, test: float) -> None:
    assert list(choose(colour_and_shape(), rules()[rule]).values()) == [pytest.approx(test)]


def test_tables_have_a_row_for_each_rule() -> None:
    lines = tables(colour_and_shape())
    assert sum(line.startswith("| ") for line in lines) == len(rules()) + 1
    assert "| mean accuracy (training-domain) | 10.0 |" in lines


def test_lines_of_the_fine_tuning_study_are_read() -> None:
    line = {
        "dataset": "pacs", "domain": "c", "seed": 3, "setting": "relative 1, 1", "records": [0, 100],
        "accuracies": {"a/out": [0.1, 0.8], "b/out": [0.2, 0.7], "c/in": [0.1, 0.6], "c/out": [0.1, 0.5]},
        "rows": {"a": 10, "b": 20},
    }  # fmt: skip
    (run,) = tuning_curves([line])
    assert run.cell == ("pacs", "cma", "c", 3)
    assert run.accuracy.tolist() == [[0.1, 0.2], [0.8, 0.7]]
    assert list(choose([run], rules()["range, λ = 2"]).values()) == [pytest.approx(60)]


def test_runs_of_a_sweep_are_read() -> None:
    curves = {
        f"{metric}|{split}|{domain}": [0.5, value]
        for metric, value in (("accuracy", 0.7), ("cross_entropy", 0.6))
        for split in ("in", "out")
        for domain in "abc"
    }
    curves |= {name.replace("accuracy", "averaged_accuracy"): [None, 0.8] for name in curves if "acc" in name}
    curves |= {name.replace("cross", "averaged_cross"): [None, 0.4] for name in curves if name.startswith("cross")}
    curves["gradient_gap||"] = [0.1, 0.2]
    config = {"dataset": "d", "algorithm": "erm", "test_domains": ["b"], "trial": 2}
    info = {"config": config, "domains": ["a", "b", "c"], "rows": {name: {"out": 50} for name in "abc"}}
    raw, averaged = sweep_curves([{"run": info, "steps": [0, 100], "curves": curves}])
    assert (raw.cell, averaged.cell) == (("d", "erm", "b", 2), ("d", "erm+average", "b", 2))
    assert raw.accuracy.tolist() == [[0.5, 0.5], [0.7, 0.7]]
    assert raw.gaps["gradient"].tolist() == [0.1, 0.2]
    assert (averaged.steps.tolist(), averaged.test.tolist(), averaged.gaps) == ([100], [0.8], {})


def test_equal_scores_count_alike() -> None:
    (run,) = colour_and_shape()
    other = replace(run, test=np.array([0.2, 0.9]))
    assert list(choose([run, other], rules()["range, λ = 2"]).values()) == [pytest.approx(80)]
