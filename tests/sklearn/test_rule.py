import numpy as np
import pytest

from momentalign.sklearn._rule import Verdict, choose_step, lose_too_often

UNITS = np.ones(4)


def test_a_step_needs_more_than_a_standard_error_and_loses_no_point() -> None:
    scores = np.array(
        [
            [0.60, 0.70, 0.80, 0.90],
            [0.62, 0.72, 0.81, 0.91],  # gains everywhere
            [0.90, 0.69, 0.79, 0.89],  # one fold carries the mean: within its standard error
            [0.70, 0.80, 0.90, 0.88],  # gains more, but loses two points on a fold
            [0.61, 0.71, 0.81, 0.91],  # gains less than the second
        ]
    )
    step = choose_step(scores, UNITS)
    assert step.candidate == 1
    assert step.outcomes == ["reference", "chosen", Verdict.UNCERTAIN, Verdict.LOSES, Verdict.SMALLER]
    np.testing.assert_allclose(step.gains, [0, 0.015, 0.0675, 0.07, 0.01])
    np.testing.assert_allclose(step.errors[1], np.std([0.02, 0.02, 0.01, 0.01], ddof=1) / 2)
    assert choose_step(scores[[0, 2, 3]], UNITS).candidate == 0
    assert choose_step(scores, UNITS, cautious=False).candidate == 3
    assert lose_too_often(scores, UNITS, 0).tolist() == [False, False, False, True, False]


def test_a_gain_of_less_than_a_tenth_of_a_point_is_not_worth_a_step() -> None:
    scores = np.array([[0.5] * 4, [0.5009] * 4, [0.501] * 4])
    assert choose_step(scores[:2], UNITS).outcomes == ["reference", Verdict.LITTLE]
    assert choose_step(scores, UNITS).candidate == 2
    assert choose_step(scores[:2], UNITS, cautious=False).candidate == 1


def test_some_folds_may_lose_a_point_where_that_is_tolerated() -> None:
    scores = np.array([[0.5, 0.5, 0.5, 0.5, 0.5], [0.6, 0.6, 0.6, 0.6, 0.48], [0.9, 0.9, 0.9, 0.48, 0.48]])
    units = np.ones(5)
    assert choose_step(scores, units).outcomes == ["reference", Verdict.LOSES, Verdict.LOSES]
    step = choose_step(scores, units, tolerated=1)
    assert step.outcomes == ["reference", "chosen", Verdict.LOSES_OFTEN]
    assert lose_too_often(scores, units, 1).tolist() == [False, False, True]
    assert choose_step(scores, units, tolerated=2).candidate == 2


def test_gains_are_in_the_units_of_the_folds() -> None:
    errors = np.array([[-1.0, -100.0, -10.0], [-0.9, -99.5, -9.9]])
    step = choose_step(errors, -errors[0])
    np.testing.assert_allclose(step.gains[1], np.mean([0.1, 0.005, 0.01]))
    assert lose_too_often(np.array([[-100.0], [-100.9], [-101.1]]), np.array([100.0]), 0).tolist() == [
        False,
        False,
        True,
    ]


def test_ties_stay_with_the_earlier_candidate() -> None:
    scores = np.tile([0.5, 0.6, 0.7], (3, 1))
    assert choose_step(scores, UNITS[:3]).candidate == 0
    scores[1:] += 0.1
    assert choose_step(scores, UNITS[:3]).candidate == 1


def test_two_folds_are_no_evidence() -> None:
    scores = np.array([[0.5, 0.5], [0.9, 0.9]])
    assert choose_step(scores, UNITS[:2]).candidate == 0
    assert choose_step(np.insert(scores, 1, np.nan, axis=1), UNITS[:3]).candidate == 0
    assert choose_step(scores[:, :1], UNITS[:1]).outcomes == ["reference", Verdict.UNCERTAIN]


def test_folds_without_a_score_do_not_count_and_dropped_candidates_lose() -> None:
    scores = np.array([[0.5, np.nan, 0.5, 0.5], [0.6, np.nan, 0.6, 0.6], [0.4, np.nan, np.nan, np.nan]])
    step = choose_step(scores, UNITS)
    assert step.candidate == 1
    assert step.outcomes[2] is Verdict.LOSES
    assert step.gains[1] == pytest.approx(0.1)
