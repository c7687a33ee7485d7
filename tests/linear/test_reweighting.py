import numpy as np
import pytest

from momentalign.linear import split_groups, subsample_groups


def test_subsamples_have_every_group_alike_and_reach_all_rows() -> None:
    groups, random = np.array([7] * 5 + [3] * 2 + [9] * 9), np.random.RandomState(0)
    draws = [subsample_groups(groups, random) for _ in range(200)]
    for rows in draws:
        assert np.unique(groups[rows], return_counts=True)[1].tolist() == [2, 2, 2]
        assert len(set(rows.tolist())) == 6
    assert set(np.concatenate(draws).tolist()) == set(range(16))


@pytest.mark.parametrize(("fraction", "sizes"), [(0.5, [2, 1, 1]), (0.01, [1, 1, 1]), (0.99, [3, 1, 1])])
def test_splits_leave_rows_on_both_sides(fraction: float, sizes: list[int]) -> None:
    groups = np.array([0, 0, 0, 0, 1, 1, 2])
    mask = split_groups(groups, fraction, np.random.RandomState(0))
    assert np.bincount(groups[mask], minlength=3).tolist() == sizes
