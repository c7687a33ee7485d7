"""What the solver calls converged: a small gradient, or nothing left to gain; not a search that failed."""

import numpy as np
import pytest

from momentalign.linear import AlignmentObjective, SortedRows, fit_head
from momentalign.linear._solver import Preconditioner, Solution, ValueAndGradient, solve
from tests.linear.problems import make_problem


def round_coordinates(head: np.ndarray) -> Preconditioner:
    return Preconditioner(np.ones_like(head))


def solved(function: ValueAndGradient, start: np.ndarray, tol: float = 1e-4, max_iter: int = 1000) -> Solution:
    return solve(function, start, round_coordinates, tol=tol, max_iter=max_iter)


def test_a_search_that_fails_has_not_converged_and_ends() -> None:
    calls = []

    def uphill(head: np.ndarray) -> tuple[float, np.ndarray]:
        calls.append(head)
        return 0.5 * float(head @ head), -head  # the gradient's sign is wrong: no step along it lowers the value

    found = solved(uphill, np.ones(3))
    assert not found.converged
    assert found.value == 1.5
    assert (found.head == 1).all()
    assert len(calls) < 200


def test_a_value_that_is_not_a_number_has_not_converged_and_ends() -> None:
    found = solved(lambda head: (np.nan, np.full(2, np.nan)), np.ones(2))
    assert not found.converged


def test_a_kink_has_not_converged_though_no_step_gains() -> None:
    found = solved(lambda head: (float(np.abs(head).sum()), np.where(head < 0, -1.0, 1.0)), np.zeros(2))
    assert not found.converged


def test_where_float64_sees_no_progress_it_has_converged() -> None:
    problem = make_problem(2, n=200)
    columns = (1e5 * problem.features, problem.targets, problem.domains)
    head = fit_head(*columns, {1: 1.0}, tol=1e-12)
    assert head.converged
    objective = AlignmentObjective(SortedRows.sort(*columns, None, bias=True), 2, l2=1e-3, scaling="relative")
    objective.set_weights({"gradient": 1.0})
    assert np.abs(objective(np.append(head.coef, head.intercept))[1]).max() > 1e-12
    assert head.objective == pytest.approx(fit_head(*columns, {1: 1.0}, tol=1e-4).objective, rel=1e-12)


@pytest.mark.parametrize("distance", [1e-3, 1e-6, 1e-9])
def test_a_start_near_the_solution_is_not_mistaken_for_it(distance: float) -> None:
    scales = np.array([1.0, 2.0, 3.0])

    def bowl(head: np.ndarray) -> tuple[float, np.ndarray]:
        away = head - 1
        return 0.5 * float(scales @ away**2), scales * away

    found = solved(bowl, np.ones(3) + distance, tol=1e-14)
    assert found.converged
    assert np.abs(bowl(found.head)[1]).max() <= 1e-14


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3, 1e5])
@pytest.mark.parametrize("classes", [2, 3])
def test_ordinary_fits_converge_in_any_units(classes: int, size: float) -> None:
    problem = make_problem(classes, n=200)
    for weights in ({}, {1: 1.0}, {1: 10.0}, {1: 1.0, 2: 1.0}):
        for tol in (1e-4, 1e-8):
            assert fit_head(size * problem.features, problem.targets, problem.domains, weights, tol=tol).converged


def test_a_gradient_of_the_tolerance_has_converged() -> None:
    def parabola(head: np.ndarray) -> tuple[float, np.ndarray]:
        return 0.5 * float((head - 1) @ (head - 1)), head - 1

    first = solved(parabola, np.zeros(1), tol=1e-300, max_iter=1)
    size = float(np.abs(first.head - 1).max())
    assert size > 0
    assert not first.converged
    assert solved(parabola, np.zeros(1), tol=size, max_iter=1).converged
