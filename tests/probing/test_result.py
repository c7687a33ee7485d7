"""Means, errors and text of a protocol's result, from scores by hand."""

import math

import numpy as np
import pytest

from momentalign.linear import LinearHead
from momentalign.probing._features import ProbeScores
from momentalign.probing._result import MethodResult, ProbeFit, ProtocolResult

HEAD = LinearHead(np.zeros((1, 2)), np.zeros(1), 0.0, 3, True)


def scores(average: float, worst: float, worst_class: float) -> ProbeScores:
    return ProbeScores(average, worst, worst_class, np.array([worst]), np.array([average]))


def fit(seed: int, test_worst: float) -> ProbeFit:
    train, val = scores(0.99, 0.95, 0.97), scores(0.9, 0.6 + 0.1 * seed, 0.8)
    return ProbeFit("cma", {"gradient_weight": 10.0}, 4, seed, train, val, scores(0.75, test_worst, 0.7), HEAD)


def result(*worst: float, rule: str = "worst-group", published=None) -> ProtocolResult:
    fits = tuple(fit(seed, value) for seed, value in enumerate(worst))
    measures = tuple({"auroc": 0.6 + 0.2 * seed} for seed in range(len(worst)))
    row = MethodResult("cma", "CMA", fits, 5, "a note", measures)
    return ProtocolResult("birds", "converged", None, (row,), fits, ("One note.",), published or {}, rule)


def test_a_row_is_the_mean_over_seeds_with_its_standard_error() -> None:
    found = result(0.5, 0.7, 0.6)
    row = found["cma"]
    assert row.mean("test", "worst") == pytest.approx(0.6)
    assert row.error("test", "worst") == pytest.approx(0.1 / math.sqrt(3))  # deviations 0.1, 0.1, 0 over ddof 1
    frame = found.to_frame().loc["cma"]
    assert frame["worst_group"] == pytest.approx(0.6)
    assert frame["worst_group_se"] == pytest.approx(0.1 / math.sqrt(3))
    assert (frame["average"], frame["average_se"]) == (pytest.approx(0.75), pytest.approx(0))
    assert frame["auroc"] == pytest.approx(0.8)
    assert math.isnan(frame["calibration_error"])
    assert (frame["seeds"], frame["sets"], frame["hparams"]) == (3, 5, {"gradient_weight": 10.0})
    assert math.isnan(frame["published_average"])


def test_text_is_in_percent_with_the_same_errors() -> None:
    found = result(0.5, 0.7, 0.6, published={"cma": (91.5, 80.25)})
    frame, text = found.to_frame().loc["cma"], str(found)
    assert (frame["published_average"], frame["published_worst_group"]) == (91.5, 80.25)
    title, _, line, note = text.splitlines()
    assert title == ("birds: test accuracy in %, converged solver, no ISR; chosen by worst-group validation accuracy.")
    assert line.split("  ")[0] == "CMA"
    for part in ("75.00 ± 0.00", "60.00 ± 5.77", "70.00 ± 5.77", "91.50 / 80.25", "gradient_weight 10; a note"):
        assert part in line
    assert note == "One note."


def test_one_seed_has_no_error() -> None:
    found = result(0.5)
    assert math.isnan(found["cma"].error("test", "worst"))
    assert "±" not in str(found)
    assert " 50.00 " in str(found)


@pytest.mark.parametrize(("rule", "validation"), [("worst-group", 0.65), ("worst-class", 0.8), ("train-groups", 0.95)])
def test_validation_is_what_the_rule_ranks_by(rule: str, validation: float) -> None:
    assert result(0.5, 0.7, rule=rule).to_frame()["validation"].item() == pytest.approx(validation)


def test_unknown_methods_are_named() -> None:
    with pytest.raises(KeyError, match="no method 'erm' in this result: cma"):
        result(0.5)["erm"]
