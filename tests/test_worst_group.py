import numpy as np
import pytest
from scipy.stats import beta

from momentalign.sklearn import worst_group_interval

PERCENT = np.array([0.025, 0.975])


def coverage(accuracies: list[float], rows: list[int], repeats: int = 1500, interval=worst_group_interval) -> float:
    """Share of repeats whose interval contains the least accuracy."""
    drawn = np.random.default_rng(0).binomial(rows, accuracies, (repeats, len(rows)))
    ends = np.array([interval(hits, rows) for hits in drawn])
    return float(((ends[:, 0] <= min(accuracies)) & (min(accuracies) <= ends[:, 1])).mean())


def percentiles(hits: np.ndarray, rows: list[int]) -> np.ndarray:
    """Percentiles of the least accuracy of rows resampled within groups."""
    resampled = np.random.default_rng(1).binomial(rows, hits / rows, (500, len(rows))) / rows
    return np.quantile(resampled.min(1), PERCENT)


@pytest.mark.parametrize(
    ("accuracies", "rows"),
    [
        ([0.7], [150]),
        ([0.7, 0.95, 0.95], [60, 500, 500]),
        ([0.7] * 4, [60, 100, 200, 400]),
        ([0.1, 0.13, 0.16, 0.9], [100] * 4),
        ([0.9] * 8, [80] * 8),
    ],
)
def test_interval_contains_the_true_minimum(accuracies, rows):
    assert coverage(accuracies, rows) >= 0.935


def test_percentiles_of_resampled_minima_do_not():
    accuracies, rows = [0.7] * 8, [100] * 8
    assert coverage(accuracies, rows) >= 0.935
    assert coverage(accuracies, rows, 100, percentiles) < 0.3


def test_one_group_has_its_own_interval():
    assert worst_group_interval([30], [40]) == pytest.approx(tuple(beta.ppf(PERCENT, 30.5, 10.5)))


def test_groups_far_above_do_not_matter():
    assert worst_group_interval([30, 4000], [40, 4000]) == pytest.approx(worst_group_interval([30], [40]))


def test_groups_close_to_the_minimum_raise_the_upper_end_relative_to_it():
    alone, beside = worst_group_interval([60], [100]), worst_group_interval([60, 60, 60], [100] * 3)
    assert beside[0] == pytest.approx(alone[0])
    assert beside[1] > alone[1]


def test_ends_are_reached_and_empty_groups_left_out():
    assert worst_group_interval([0, 5], [20, 10])[0] == 0.0
    assert worst_group_interval([20, 0], [20, 0])[1] == 1.0


@pytest.mark.parametrize(
    ("hits", "rows", "message"),
    [
        ([1], [1, 2], "should be two columns"),
        ([0], [0], "there are no rows"),
        ([3], [2], "'hits' should lie between 0 and the number of rows"),
    ],
)
def test_counts_are_checked(hits, rows, message):
    with pytest.raises(ValueError, match=message):
        worst_group_interval(hits, rows)
