import numpy as np
import pytest
from scipy.special import expit

from momentalign.linear import AlignmentObjective, LinearHead, SortedRows, fit_head, rescale
from tests.linear.problems import Problem, make_problem


def value(problem: Problem, head: LinearHead, weights: np.ndarray | None) -> float:
    rows = SortedRows.sort(problem.features, problem.targets, problem.domains, weights, bias=True)
    objective = AlignmentObjective(rows, problem.classes, l2=0.01)
    return objective(np.column_stack([head.coef, head.intercept]).ravel())[0]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_length_is_the_one_that_the_loss_asks_for(classes: int, weighted: bool) -> None:
    problem = make_problem(classes)
    columns = (problem.features, problem.targets, problem.domains)
    weights = np.random.default_rng(0).random(60) if weighted else None
    aligned = fit_head(*columns, {1: 10.0}, sample_weight=weights, l2=0.01)
    head, scale = rescale(aligned, *columns, sample_weight=weights, l2=0.01)
    assert scale < 0.95  # alignment had made it longer
    np.testing.assert_allclose(head.coef, scale * aligned.coef)
    np.testing.assert_allclose(head.intercept, scale * aligned.intercept)
    for other in (0.99, 1.01):
        there = LinearHead(other * head.coef, other * head.intercept, 0.0, 0, True)
        assert value(problem, there, weights) > value(problem, head, weights)
    _, one = rescale(head, *columns, sample_weight=weights, l2=0.01)
    assert one == pytest.approx(1, abs=1e-6)


def test_it_is_bounded_where_the_loss_is_not() -> None:
    X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    right, wrong = (LinearHead(np.array([[sign]]), np.zeros(1), 0.0, 0, True) for sign in (1.0, -1.0))
    assert rescale(right, X, y, l2=0.0)[1] == 1e3
    assert rescale(wrong, X, y, l2=0.0)[1] == 1e-3
    nothing = LinearHead(np.zeros((1, 1)), np.zeros(1), 0.0, 0, True)
    assert rescale(nothing, X, y, l2=0.0)[1] == 1e-3


@pytest.mark.parametrize("length", [0.01, 0.1, 1.0, 100.0])
def test_the_rescaled_head_does_not_depend_on_the_length_it_had(length: float) -> None:
    features, targets = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 0, 1])
    head = LinearHead(np.array([[length]]), np.array([-1.5 * length]), 0.0, 0, True)
    rescaled, scale = rescale(head, features, targets, l2=0.0)
    assert 3 * expit(-1.5 * rescaled.coef.item()) == pytest.approx(expit(0.5 * rescaled.coef.item()))  # no slope
    assert scale == pytest.approx(rescaled.coef.item() / length)
