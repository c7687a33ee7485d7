import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.selection import Curves, choose, read_lines, rules, tables


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


def test_lines_of_the_fine_tuning_study_are_read(tmp_path: Path) -> None:
    line = {
        "dataset": "pacs", "domain": "c", "seed": 3, "setting": "relative 1, 1", "records": [0, 100],
        "accuracies": {"a/out": [0.1, 0.8], "b/out": [0.2, 0.7], "c/in": [0.1, 0.6], "c/out": [0.1, 0.5]},
        "rows": {"a": 10, "b": 20},
    }  # fmt: skip
    (tmp_path / "pacs.jsonl").write_text(json.dumps(line) + "\n")
    (run,) = read_lines(tmp_path / "pacs.jsonl")
    assert run.cell == ("pacs", "cma", "c", 3)
    assert run.accuracy.tolist() == [[0.1, 0.2], [0.8, 0.7]]
    assert list(choose([run], rules()["range, λ = 2"]).values()) == [pytest.approx(60)]
