import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from momentalign.linear import (
    LinearHead,
    fit_towards,
    split_groups,
    subsample_groups,
)
from tests.linear.problems import make_problem


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


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_refit_stays_near_its_head(classes: int, bias: bool) -> None:
    problem, rng = make_problem(classes), np.random.default_rng(0)
    outputs = 1 if classes == 2 else classes
    head = LinearHead(rng.normal(size=(outputs, 4)), rng.normal(size=outputs), 0.0, 0, True)
    weights = rng.random(60)
    X = np.column_stack([problem.features, np.ones(60)])
    whole = np.column_stack([head.coef, head.intercept])
    start = whole[:, : 4 + bias]

    def objective(flat: np.ndarray) -> float:
        fitted = flat.reshape(start.shape)
        W = np.hstack([fitted, whole[:, 4 + bias :]])
        Z = X @ (np.vstack([np.zeros_like(W), W]) if classes == 2 else W).T
        losses = -log_softmax(Z, axis=1)[np.arange(60), problem.targets]
        return float(weights @ losses / weights.sum() + 0.1 * np.square(fitted - start).sum())

    plain = minimize(objective, start.ravel(), options={"gtol": 1e-8}).x.reshape(start.shape)
    ours = fit_towards(head, problem.features, problem.targets, sample_weight=weights, l2=0.2, bias=bias, tol=1e-9)
    np.testing.assert_allclose(ours.coef, plain[:, :4], atol=1e-5)
    np.testing.assert_allclose(ours.intercept, plain[:, 4] if bias else head.intercept, atol=1e-5)
