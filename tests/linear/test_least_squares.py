import numpy as np
import pytest

from momentalign.linear import fit_head
from tests.linear.problems import SCALINGS, make_problem


@pytest.mark.parametrize("scaling", SCALINGS)
def test_an_exact_fit_needs_no_penalty(scaling: str) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    Y = X @ np.array([[1.0, -2.0], [0.5, 0.0], [3.0, 1.0]]) + 4
    head = fit_head(X, Y, np.arange(40) % 2, {1: 100.0}, loss="squared_error", l2=0.0, scaling=scaling)
    np.testing.assert_allclose(head.intercept, 4, rtol=1e-8)
    assert head.objective == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("unit", [1e-10, 1e-6, 1e6])
def test_the_unit_of_the_targets_does_not_change_a_regression(unit: float) -> None:
    X, Y, domains = make_problem(0, n=200).columns
    options = {"loss": "squared_error", "tol": 1e-6}
    expected = fit_head(X, Y, domains, {1: 10.0}, **options)
    head = fit_head(X, unit * Y, domains, {1: 10.0 * unit**2}, **options)
    assert head.converged
    np.testing.assert_allclose(head.coef / unit, expected.coef, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_the_quotient_of_a_nearly_exact_fit_has_digits_enough_to_converge(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, domains = rng.normal(size=(600, 5)), np.arange(600) % 3
    X[:, 1] += domains * rng.integers(0, 2, 600)
    y = X @ np.arange(5.0)
    weight = 0.5 * y.var() * (0.3, 1.0, 10.0)[seed % 3]
    assert fit_head(X, y[:, None], domains, {1: weight}, loss="squared_error", l2=1 / 600, tol=1e-6).converged
