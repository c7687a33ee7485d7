"""Classifier and regressor with given weights."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge

from momentalign import CMA, MomentAlignment
from momentalign.sklearn import MomentAlignedClassifier, MomentAlignedRegressor
from tests.linear.problems import SCALINGS, make_problem

pytestmark = pytest.mark.filterwarnings("ignore:Without 'domains'")


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_weights_of_zero_are_logistic_regression(classes: int, fit_intercept: bool) -> None:
    problem = make_problem(classes, n=120)
    X, y = problem.features, np.array(["x", "y", "z"])[problem.targets]
    plain = LogisticRegression(C=1 / (0.05 * 120), fit_intercept=fit_intercept, tol=1e-9, max_iter=10_000).fit(X, y)
    ours = MomentAlignedClassifier(0, 0, l2=0.05, fit_intercept=fit_intercept, tol=1e-9)
    for fitted in (ours.fit(X, y, domains=np.arange(120) % 4), ours.fit(X, y)):
        np.testing.assert_allclose(fitted.coef_, plain.coef_, atol=1e-5)
        np.testing.assert_allclose(fitted.intercept_, plain.intercept_, atol=1e-5)
        for outputs in ("predict_proba", "predict_log_proba", "decision_function"):
            np.testing.assert_allclose(getattr(fitted, outputs)(X), getattr(plain, outputs)(X), atol=1e-4)
        assert (fitted.predict(X) == plain.predict(X)).all()


@pytest.mark.parametrize("outputs", [None, 1, 2])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_weight_of_zero_is_ridge(outputs: int | None, fit_intercept: bool) -> None:
    (X, Y, _), domains = make_problem(0, n=90).columns, np.arange(90) % 3
    y = Y[:, 0] if outputs is None else Y[:, :outputs]
    ridge = Ridge(alpha=0.1 * 90, fit_intercept=fit_intercept).fit(X, y)
    ours = MomentAlignedRegressor(0.0, l2=0.1, fit_intercept=fit_intercept).fit(X, y, domains=domains)
    assert ours.coef_.shape == ((outputs, 4) if outputs else (4,))
    np.testing.assert_allclose(ours.coef_.ravel(), ridge.coef_.ravel(), atol=1e-9)
    np.testing.assert_allclose(ours.predict(X).ravel(), ridge.predict(X).ravel(), atol=1e-9)


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("classes", [0, 3])
def test_aligning_brings_the_penalty_down(classes: int, scaling: str) -> None:
    problem = make_problem(classes, n=200)
    penalty = CMA(1.0, 1.0) if classes else MomentAlignment({1: 1.0}, loss="squared_error")

    def measured(weight: float) -> float:
        weights = (weight, weight) if classes else (weight,)
        model = (MomentAlignedClassifier if classes else MomentAlignedRegressor)(*weights, scaling=scaling)
        X, y, domains = problem.columns
        model.fit(X, y, domains=domains)
        outputs = model.decision_function(X) if classes else model.predict(X)
        return penalty(*map(torch.as_tensor, (X, outputs, y, domains))).item()

    values = [measured(weight) for weight in (0.0, 1.0, 1e3)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.9 * values[0]


def test_it_holds_up_where_a_shortcut_turns_around() -> None:
    rng = np.random.default_rng(0)
    y, shortcut = rng.integers(0, 2, 2400), np.repeat([1.0, 0.2, -1.0], 800)
    sign = 2 * y - 1
    X = np.column_stack([sign + 1.2 * rng.normal(size=2400), shortcut * sign + 0.6 * rng.normal(size=2400)])
    plain, aligned = (
        MomentAlignedClassifier(weight).fit(X[:1600], y[:1600], domains=shortcut[:1600]).score(X[1600:], y[1600:])
        for weight in (0, 100)
    )
    assert aligned > plain + 0.05


def test_a_domain_with_one_class_works() -> None:
    X, y, domains = make_problem(2).columns
    assert MomentAlignedClassifier().fit(X, np.where(domains == 5, 0, y), domains=domains).aligned_


def test_targets_in_other_units_give_the_same_predictions() -> None:
    X, y, domains = make_problem(0, n=90).columns
    metres, millimetres = (
        MomentAlignedRegressor(10.0, tol=1e-10).fit(X, unit * y, domains=domains).predict(X) / unit
        for unit in (1, 1000)
    )
    plain = MomentAlignedRegressor(0.0).fit(X, y, domains=domains).predict(X)
    np.testing.assert_allclose(millimetres, metres, atol=1e-6)
    assert np.abs(metres - plain).max() > 0.01


def test_constant_targets_work() -> None:
    X, _, domains = make_problem(0).columns
    fitted = MomentAlignedRegressor().fit(X, np.full(60, 3.0), domains=domains)
    np.testing.assert_allclose(fitted.predict(X), 3.0, rtol=1e-6)


def test_running_out_of_iterations_is_said() -> None:
    X, y, _ = make_problem(2).columns
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        MomentAlignedClassifier(max_iter=1, tol=1e-9).fit(X, y)
