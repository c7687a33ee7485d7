import numpy as np
import pytest

from momentalign.sklearn._rule import Verdict, choose_step, lose_too_often

UNITS = np.ones(4)
EVEN = [0.5] * 4
BEFORE = [0.6, 0.7, 0.8, 0.9]
ALL_GAIN = [0.62, 0.72, 0.81, 0.91]
ONE_GAINS = [0.9, 0.69, 0.79, 0.89]  # within its standard error
ONE_LOSES = [0.7, 0.8, 0.9, 0.88]  # two points, though the others gain more
GAIN_LESS = [0.61, 0.71, 0.81, 0.91]
NAN = np.nan
LOSES, SMALLER = Verdict.LOSES, Verdict.SMALLER


@pytest.mark.parametrize(
    ("scores", "tolerated", "chosen", "outcomes"),
    [
        ([BEFORE, ALL_GAIN, ONE_GAINS, ONE_LOSES, GAIN_LESS], 0, 1, ["chosen", Verdict.UNCERTAIN, LOSES, SMALLER]),
        ([BEFORE, ONE_GAINS, ONE_LOSES], 0, 0, [Verdict.UNCERTAIN, LOSES]),
        ([EVEN, [0.5009] * 4], 0, 0, [Verdict.LITTLE]),
        ([EVEN, [0.5009] * 4, [0.501] * 4], 0, 2, [Verdict.LITTLE, "chosen"]),
        ([EVEN, [0.6, 0.6, 0.6, 0.48], [0.9, 0.9, 0.48, 0.48]], 0, 0, [LOSES, LOSES]),
        ([EVEN, [0.6, 0.6, 0.6, 0.48], [0.9, 0.9, 0.48, 0.48]], 1, 1, ["chosen", Verdict.LOSES_OFTEN]),
        ([EVEN, [0.6, 0.6, 0.6, 0.48], [1.5, 1.5, 0.48, 0.48]], 2, 2, [SMALLER, "chosen"]),
        ([EVEN, EVEN, EVEN], 0, 0, [Verdict.UNCERTAIN] * 2),
        ([EVEN, [0.6] * 4, [0.6] * 4], 0, 1, ["chosen", SMALLER]),
        ([[0.5, 0.5, NAN, NAN], [0.9, 0.9, NAN, NAN]], 0, 0, [Verdict.UNCERTAIN]),  # two folds are no evidence
        ([[0.5, NAN, 0.5, 0.5], [0.6, NAN, 0.6, 0.6], [0.4, NAN, NAN, NAN]], 0, 1, ["chosen", LOSES]),
    ],
)
def test_a_step_needs_evidence(scores: list, tolerated: int, chosen: int, outcomes: list) -> None:
    step = choose_step(np.array(scores), UNITS, tolerated=tolerated)
    assert step.candidate == chosen
    assert step.outcomes == ["reference", *outcomes]


def test_gains_and_their_errors() -> None:
    scores = np.array([BEFORE, ALL_GAIN, ONE_GAINS, ONE_LOSES, GAIN_LESS])
    step = choose_step(scores, UNITS)
    np.testing.assert_allclose(step.gains, [0, 0.015, 0.0675, 0.07, 0.01])
    np.testing.assert_allclose(step.errors[1], np.std([0.02, 0.02, 0.01, 0.01], ddof=1) / 2)
    assert choose_step(scores, UNITS, cautious=False).candidate == 3
    assert choose_step(np.array([EVEN, [0.5009] * 4]), UNITS, cautious=False).candidate == 1
    assert lose_too_often(scores, UNITS, 0).tolist() == [False, False, False, True, False]


def test_gains_are_in_the_units_of_the_folds() -> None:
    errors = np.array([[-1.0, -100.0, -10.0], [-0.9, -99.5, -9.9]])
    np.testing.assert_allclose(choose_step(errors, -errors[0]).gains[1], np.mean([0.1, 0.005, 0.01]))
    worse = np.array([[-100.0], [-100.9], [-101.1]])
    assert lose_too_often(worse, np.array([100.0]), 0).tolist() == [False, False, True]
