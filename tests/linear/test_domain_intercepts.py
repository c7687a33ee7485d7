import numpy as np
from sklearn.linear_model import Ridge

from momentalign.linear import add_indicators, drop_indicators, fit_least_squares


def test_without_indicators_the_intercept_is_the_mean_of_the_domains() -> None:
    rng = np.random.default_rng(0)
    domains = rng.integers(3, 7, 60)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=(60, 1)) + domains[:, None]
    extended = add_indicators(X, domains)
    assert extended.shape == (60, 6)
    np.testing.assert_array_equal(extended[:, 2:].argmax(1), domains - 3)
    np.testing.assert_array_equal(extended[:, 2:].sum(1), 1)
    head = fit_least_squares(extended, y, l2=0.5 / 60)
    model = Ridge(0.5).fit(extended, y)
    np.testing.assert_allclose(head.coef, model.coef_.reshape(1, -1))
    own = head.intercept + head.coef[0, 2:]
    assert np.ptp(own) > 1
    kept = drop_indicators(head, 2)
    np.testing.assert_allclose(kept.intercept, own.mean())
    np.testing.assert_array_equal(kept.coef, head.coef[:, :2])
    assert kept.n_iter == head.n_iter
