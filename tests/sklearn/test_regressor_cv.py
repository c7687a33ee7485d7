import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

from momentalign.sklearn import MomentAlignedRegressor, MomentAlignedRegressorCV


def shortcut_sites(strengths: tuple[float, ...], rows: int = 100) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One column that causes y, one that y causes, by another strength at every site."""
    rng = np.random.default_rng(0)
    cause = rng.normal(size=len(strengths) * rows)
    y = cause + 0.5 * rng.normal(size=len(cause))
    effect = np.repeat(strengths, rows) * y + 0.3 * rng.normal(size=len(cause))
    return np.column_stack([cause, effect]), y, np.repeat([f"site {k}" for k in range(len(strengths))], rows)


def test_caution_asks_for_a_gain_on_every_domain() -> None:
    X, y, site = shortcut_sites((1.0, -1.0, 1.0, -1.0))
    fitted = MomentAlignedRegressorCV((0.1, 10), (1e-3,)).fit(X, y, domains=site)
    assert fitted.aligned_
    assert fitted.gradient_weight_ == 0.1
    X, y, site = shortcut_sites((1.0, 1.0, 0.0, 0.0))
    best, cautious = (
        MomentAlignedRegressorCV((1,), (1e-3,), rule=rule).fit(X, y, domains=site) for rule in ("best", "cautious")
    )
    assert not cautious.aligned_
    X2, y2, _ = shortcut_sites((-2.0,))
    assert best.score(X2, y2) > cautious.score(X2, y2) + 0.2


def test_it_is_ridge_where_nothing_is_to_gain() -> None:
    X, y, site = shortcut_sites((0.5, 0.5, 0.5))
    fitted = MomentAlignedRegressorCV((10, 100), (1e-2, 10.0)).fit(X, y, domains=site)
    assert (fitted.gradient_weight_, fitted.l2_, fitted.balanced_, fitted.aligned_) == (0, 1e-2, False, False)
    np.testing.assert_allclose(fitted.coef_, Ridge(alpha=3.0).fit(X, y).coef_, rtol=1e-9)


@pytest.mark.parametrize("outputs", [1, 2])
def test_scores_are_r2_on_the_domain_left_out(outputs: int) -> None:
    X, y, site = shortcut_sites((1.0, 0.5, 0.0), rows=30)
    targets = np.column_stack([y, 3 * X[:, 1] + 1])[:, :outputs]
    fitted = MomentAlignedRegressorCV((1,), (1e-2,), tol=1e-9).fit(X, targets, domains=site)
    for setting, score in zip(fitted.candidates_, fitted.scores_, strict=True):
        each = []
        for left_out in np.unique(site):
            kept = site != left_out
            model = MomentAlignedRegressor(setting["gradient_weight"], l2=setting["l2"], tol=1e-9)
            model.fit(X[kept], targets[kept], domains=site[kept] if setting["balanced"] else None)
            predictions = model.predict(X[~kept])
            each.append(r2_score(targets[~kept], predictions, multioutput="variance_weighted"))
        assert score == pytest.approx(np.mean(each), abs=1e-6)
    assert fitted.predict(X).shape == (90, outputs)


def test_two_domains_choose_l2_against_each_other_and_weights_by_the_worse() -> None:
    X, y, site = shortcut_sites((1.0, 0.2))
    fitted = MomentAlignedRegressorCV((10,), (1e-3, 1.0)).fit(X, y, domains=site)
    each = [
        np.mean(
            [Ridge(alpha=100 * l2).fit(X[site == a], y[site == a]).score(X[site == b], y[site == b]) for a, b in pairs]
        )
        for l2 in (1e-3, 1.0)
        if (pairs := [("site 0", "site 1"), ("site 1", "site 0")])
    ]
    assert fitted.l2_ == (1e-3, 1.0)[int(np.argmax(each))]
    assert np.isfinite(fitted.scores_).all()


def test_a_domain_whose_targets_do_not_vary_works() -> None:
    X, y, site = shortcut_sites((1.0, 0.0, -1.0))
    constant = np.where(site == "site 1", 0.0, y)
    assert np.isfinite(MomentAlignedRegressorCV().fit(X, constant, domains=site).scores_).all()


def test_bad_parameters() -> None:
    X, y, site = shortcut_sites((1.0, 0.0), rows=20)
    for parameters, message in [
        ({"rule": "worst"}, "'rule' should be one of"),
        ({"folds": 1}, "'folds' should be at least 2"),
        ({"l2s": ()}, "'l2s' should hold at least one value"),
        ({"gradient_weights": (-1.0,)}, "'gradient_weights' should be finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            MomentAlignedRegressorCV(**parameters).fit(X, y, domains=site)
