import numpy as np
import pytest
from sklearn.linear_model import Ridge

from momentalign.sklearn import MomentAlignedRegressor


def sites(outputs: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3)) + np.repeat(rng.normal(size=(3, 3)), 30, axis=0)
    y = X @ rng.normal(size=(3, outputs or 1)) + rng.normal(size=(90, outputs or 1)) + 2
    return X, y if outputs else y[:, 0], np.repeat(["a", "b", "c"], 30)


@pytest.mark.parametrize("outputs", [None, 1, 2])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_weight_it_is_ridge(outputs: int | None, fit_intercept: bool) -> None:
    X, y, domains = sites(outputs)
    ridge = Ridge(alpha=0.1 * 90, fit_intercept=fit_intercept).fit(X, y)
    ours = MomentAlignedRegressor(0.0, l2=0.1, fit_intercept=fit_intercept).fit(X, y, domains=domains)
    assert ours.coef_.shape == ((outputs, 3) if outputs else (3,))
    np.testing.assert_allclose(ours.coef_.ravel(), ridge.coef_.ravel(), rtol=1e-9)
    np.testing.assert_allclose(ours.predict(X).ravel(), ridge.predict(X).ravel(), rtol=1e-9)


@pytest.mark.parametrize("scaling", ["none", "classes", "parameters", "relative"])
def test_aligning_brings_the_gradients_together(scaling: str) -> None:
    X, y, domains = sites()

    def spread(regressor: MomentAlignedRegressor) -> float:
        residuals = regressor.fit(X, y, domains=domains).predict(X) - y
        rows = np.column_stack([X, np.ones(90)]) * residuals[:, None]
        gradients = np.stack([rows[domains == domain].mean(0) for domain in "abc"])
        return gradients.var(0).sum()

    spreads = [spread(MomentAlignedRegressor(weight, scaling=scaling)) for weight in (0.0, 1.0, 1e3)]
    assert spreads == sorted(spreads, reverse=True)


def test_targets_in_other_units_give_the_same_predictions() -> None:
    X, y, domains = sites()
    metres, millimetres = (
        MomentAlignedRegressor(10.0, tol=1e-10).fit(X, unit * y, domains=domains).predict(X) / unit
        for unit in (1, 1000)
    )
    plain = MomentAlignedRegressor(0.0).fit(X, y, domains=domains).predict(X)
    np.testing.assert_allclose(millimetres, metres, rtol=1e-6)
    assert np.abs(metres - plain).max() > 0.01


def test_constant_targets_work() -> None:
    X, _, domains = sites()
    fitted = MomentAlignedRegressor().fit(X, np.full(90, 3.0), domains=domains)
    np.testing.assert_allclose(fitted.predict(X), 3.0, rtol=1e-6)
