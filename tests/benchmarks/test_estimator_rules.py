from typing import Any

import numpy as np
import pytest

from benchmarks.estimators.candidates import CANDIDATES, Candidate, score_parts
from benchmarks.estimators.rules import (
    CONFIRMED,
    MIXED,
    NO_INTERCEPTS,
    STRICT,
    SearchRule,
    gains_of,
    rules_table,
)


def record(name: str = "heart-disease", **better: list[float]) -> dict[str, Any]:
    """A cell whose candidates all score 0.7 on four folds, but for those that are given."""
    regression = name == "developer-salary"
    inner: dict[str, Any] = {}
    for candidate in map(str, CANDIDATES):
        values = better.get(candidate.replace(" ", "_").replace(".", "p"), [0.7] * 4)
        kinds = ("RMSE",) if regression else ("accuracy", "balanced accuracy", "class log loss")
        inner[candidate] = dict.fromkeys(kinds, values)
    outer = {
        name: {kind: [float(np.mean(values))] for kind, values in scores.items()} for name, scores in inner.items()
    }
    return {"cell": f"{name}/0/0", "domains": 4, "inner": inner, "outer": outer}


@pytest.mark.parametrize(
    ("rule", "chosen"),
    [
        (SearchRule(), Candidate("aligned", 10.0)),
        (SearchRule(kinds=("plain",)), Candidate("plain", 10.0)),
        (SearchRule(domains=5), Candidate("plain", 1.0)),
        (SearchRule(joint=True), Candidate("alike", 100.0)),
        (SearchRule(joint=True, wins=1.0), Candidate("aligned", 10.0)),
        (SearchRule(loss=None), Candidate("aligned", 0.01)),
        (SearchRule(score=MIXED), Candidate("aligned", 10.0)),
    ],
)
def test_rules_choose(rule: SearchRule, chosen: Candidate) -> None:
    cell = record(
        plain_10=[0.72, 0.73, 0.72, 0.73],
        aligned_10=[0.74, 0.75, 0.74, 0.75],
        alike_100=[0.695, 0.95, 0.95, 0.95],  # in a step of its own
        plain_0p01=[0.6, 0.99, 0.99, 0.99],  # loses more than a point on a fold
        aligned_0p01=[0.68, 0.99, 0.99, 0.999],
    )
    assert rule.choose(cell) == chosen


def test_gains_are_points_or_shares_of_the_error() -> None:
    cells = [record("rodent-genus", plain_10=[0.71] * 4), record("developer-salary", plain_10=[0.63] * 4)]
    few = [cell | {"cell": cell["cell"].replace("/0/0", "/2/0")} for cell in cells]

    def gains(cells: list[dict[str, Any]], **kind: bool) -> dict[str, float]:
        return gains_of(SearchRule(), cells, "settle", **kind)

    assert gains(cells, regression=False, small=False) == {"rodent-genus": pytest.approx(1.0)}
    assert gains(cells, regression=True, small=False) == {"developer-salary": pytest.approx(-10.0)}
    assert gains(cells, regression=False, small=True) == {}
    assert gains(few, regression=False, small=True) == {"rodent-genus": pytest.approx(1.0)}
    shown = rules_table([*cells, few[0], record()], "settle")
    assert "| **the rule** | +1.00 / +1.00 | +1.00 / +1.00 | −10.00 / −10.00 |  |" in shown
    confirmed = rules_table([*cells, record(plain_10=[0.72] * 4)], "confirm").splitlines()[2:]
    shown = {row.split(" | ")[0].strip("| "): row.split(" | ")[1] for row in confirmed}
    assert list(shown) == list(CONFIRMED)
    of_regressions = [name for name, cell in shown.items() if not cell.strip()]
    assert of_regressions == [NO_INTERCEPTS, STRICT]
    assert all(cell == "+2.00 / +2.00" for name, cell in shown.items() if name not in of_regressions)


def test_intercepts_and_losing_folds_are_for_regressions() -> None:
    cell = record("developer-salary")
    cell["inner"] = {name: {"RMSE": [0.7] * 5} for name in cell["inner"]}
    cell["inner"]["plain 10"] = {"RMSE": [0.6, 0.6, 0.6, 0.6, 0.72]}  # one error grows by more than a point
    cell["inner"]["intercepts 10"] = {"RMSE": [0.5] * 5}
    assert SearchRule().choose(cell) == Candidate("intercepts", 10.0)
    assert SearchRule(intercepts=(True, False)).choose(cell) == Candidate("plain", 10.0)
    assert SearchRule(losing=(True, False)).choose(cell) == Candidate("plain", 1.0)


def test_the_log_loss_may_be_the_evidence_for_another_l2() -> None:
    cell = record(plain_10=[0.68, 0.74, 0.68, 0.74])
    cell["inner"]["plain 1"]["class log loss"] = [-0.5] * 4
    cell["inner"]["plain 10"] = cell["inner"]["plain 10"] | {"class log loss": [-0.4, -0.45, -0.4, -0.45]}
    assert SearchRule(by_loss=True).choose(cell) == Candidate("plain", 10.0)
    assert SearchRule().choose(cell) == Candidate("plain", 1.0)
    cell["inner"]["plain 10"]["balanced accuracy"] = [0.68, 0.71, 0.68, 0.71]  # loses in the mean
    assert SearchRule(by_loss=True).choose(cell) == Candidate("plain", 1.0)


def test_scores_of_each_part() -> None:
    class Always:
        classes_ = np.array(["a", "b"])

        def predict(self, X: Any) -> Any:
            return np.full(len(X), "a")

        def predict_log_proba(self, X: Any) -> Any:
            return np.log(np.tile([0.8, 0.2], (len(X), 1)))

    scores = score_parts(Always(), np.zeros((3, 1)), np.array(["a", "a", "b"]), np.array([0, 1, 1]))
    assert scores["accuracy"] == [1.0, 0.5]
    assert scores["balanced accuracy"] == [1.0, 0.5]
    assert scores["class log loss"] == pytest.approx([np.log(0.8), (np.log(0.8) + np.log(0.2)) / 2])
