import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import get_scorer

from momentalign.sklearn import MomentAlignedRegressor, MomentAlignedRegressorCV


def shortcut_sites(strengths: tuple[float, ...], rows: int = 100) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One column that causes y, one that y causes, by another strength at every site."""
    rng = np.random.default_rng(0)
    cause = rng.normal(size=len(strengths) * rows)
    y = cause + 0.5 * rng.normal(size=len(cause))
    effect = np.repeat(strengths, rows) * y + 0.3 * rng.normal(size=len(cause))
    return np.column_stack([cause, effect]), y, np.repeat([f"site {k}" for k in range(len(strengths))], rows)


class WithinDomains(Ridge):
    """Ridge regression with one-hot domains, of which a new row has none."""

    def fit(self, X: np.ndarray, y: np.ndarray, site: np.ndarray) -> "WithinDomains":
        super().fit(np.hstack([X, site[:, None] == np.unique(site)]), y)
        self.coef_, self.n_features_in_ = self.coef_[..., : X.shape[1]], X.shape[1]
        return self


def test_it_fits_within_domains_where_their_means_mislead() -> None:
    rng = np.random.default_rng(14)
    site = np.repeat([f"site {k}" for k in range(8)], 60)
    levels = np.repeat(
        3 * rng.normal(size=(8, 2)), 60, axis=0
    )  # of X and of y, which have nothing to do with each other
    X = levels[:, :1] + rng.normal(size=(480, 1))
    y = X[:, 0] + 0.5 * levels[:, 1] + 0.3 * rng.normal(size=480)
    fitted = MomentAlignedRegressorCV(l2_factors=()).fit(X, y, domains=site)
    assert fitted.domain_intercepts_
    assert not fitted.aligned_
    assert not fitted.balanced_
    assert fitted.reason_.startswith("Changed from Ridge's defaults: an intercept for each domain gained ")
    assert fitted.candidates_[-1] == {
        "gradient_weight": 0.0,
        "hessian_weight": 0.0,
        "l2_factor": 1.0,
        "balanced": False,
        "domain_intercepts": True,
    }
    within = WithinDomains().fit(X, y, site)
    np.testing.assert_allclose(fitted.coef_, within.coef_, rtol=1e-6)
    assert fitted.intercept_ == pytest.approx(within.intercept_)
    assert abs(fitted.coef_[0] - 1) < 0.1 * abs(Ridge().fit(X, y).coef_[0] - 1)
    for options in ({"domain_intercepts": False}, {"fit_intercept": False}):
        other = MomentAlignedRegressorCV(l2_factors=(), **options).fit(X, y, domains=site)
        assert not other.domain_intercepts_
        assert len(other.candidates_) == len(fitted.candidates_) - 1


def test_one_fold_in_five_may_lose() -> None:
    search = MomentAlignedRegressorCV()
    tolerated = [search._tolerated(np.zeros(folds)) for folds in (3, 4, 5, 9, 10)]
    assert tolerated == [0, 0, 1, 1, 2]
    assert search._tolerated(np.array([0.0, np.nan, 0.0, 0.0, 0.0])) == 0
    X, y, site = shortcut_sites((1.0, 1.0, 1.0, 1.0, 0.0, 0.0), rows=60)
    # Without the shortcut two sites gain much and four lose: more than one in five.
    fitted = MomentAlignedRegressorCV((100,), (), domain_intercepts=False).fit(X, y, domains=site)
    assert fitted.outcomes_[-1] == "loses more than a point on too many left-out folds"
    assert fitted.reason_.endswith(" without losing 1% on more than 1 of them.")
    # L2 takes noise away; at one site of six the only real column has a wide range, where a small coefficient costs.
    rng = np.random.default_rng(0)
    X, site = rng.normal(size=(120, 60)), np.repeat(np.arange(6), 20)
    X[site == 5, 0] *= 8
    y = X[:, 0] + rng.normal(size=120)
    fitted = MomentAlignedRegressorCV((), (30,), domain_intercepts=False).fit(X, y, domains=site)
    assert fitted.l2_factor_ == 30
    gains = 1 - fitted.fold_scores_[1] / fitted.fold_scores_[0]
    assert (gains < -0.01).tolist() == [False] * 5 + [True]


def test_too_many_domains_have_no_indicators(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, site = shortcut_sites((0.5, 0.5, 0.5))
    for most, tried in ((900, True), (899, False)):
        monkeypatch.setattr("momentalign.sklearn._regressor._INDICATORS", most)
        fitted = MomentAlignedRegressorCV(l2_factors=()).fit(X, y, domains=site)
        assert any(setting.get("domain_intercepts") for setting in fitted.candidates_) == tried


def test_a_step_needs_a_gain_without_a_loss() -> None:
    X, y, site = shortcut_sites((1.0, -1.0, 1.0, -1.0))
    fitted = MomentAlignedRegressorCV((0.1, 10), ()).fit(X, y, domains=site)
    assert fitted.aligned_
    assert fitted.outcomes_[fitted.candidates_.index(_chosen(fitted))] == "chosen"
    X, y, site = shortcut_sites((1.0, 1.0, 0.0, 0.0))
    best, cautious = (
        MomentAlignedRegressorCV((1,), (), rule=rule).fit(X, y, domains=site) for rule in ("best", "cautious")
    )
    assert not cautious.aligned_
    X2, y2, _ = shortcut_sites((-2.0,))
    assert best.score(X2, y2) > cautious.score(X2, y2) + 0.2


def _chosen(fitted: MomentAlignedRegressorCV) -> dict[str, float | bool]:
    weights = {"gradient_weight": fitted.gradient_weight_, "hessian_weight": 0.0}
    return weights | {"l2_factor": fitted.l2_factor_, "balanced": fitted.balanced_}


def test_without_evidence_it_is_ridge() -> None:
    X, y, site = shortcut_sites((0.5, 0.5, 0.5))
    fitted = MomentAlignedRegressorCV((10, 100), (1000.0,), domain_intercepts=False).fit(X, y, domains=site)
    assert (fitted.gradient_weight_, fitted.l2_factor_, fitted.balanced_, fitted.aligned_) == (0, 1, False, False)
    assert fitted.reason_.startswith(
        "Ridge's defaults: none of 4 candidates gained more than a standard error and 0.1%"
    )
    assert " in root mean squared error on " in fitted.reason_
    assert fitted.reason_.endswith(" without losing 1% on one of them.")
    np.testing.assert_allclose(fitted.coef_, Ridge().fit(X, y).coef_, rtol=1e-9)
    weights = np.random.default_rng(0).random(300)
    fitted.fit(X, y, domains=site, sample_weight=weights)
    assert fitted.l2_ == fitted.l2_factor_ / weights.sum()


@pytest.mark.filterwarnings("ignore:All rows are of domain")
@pytest.mark.parametrize("scoring", ["r2", "neg_root_mean_squared_error"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_scores_are_those_of_fits_without_the_domain(outputs: int, scoring: str) -> None:
    X, y, site = shortcut_sites((1.0, 0.5, 0.0), rows=30)
    targets = np.column_stack([y, 3 * X[:, 1] + 1])[:, :outputs]
    fitted = MomentAlignedRegressorCV((1,), (10,), tol=1e-9, scoring=scoring, rule="best").fit(X, targets, domains=site)
    for setting, each in zip(fitted.candidates_, fitted.fold_scores_, strict=True):
        for left_out, score in zip(np.unique(site), each, strict=True):
            kept = site != left_out
            model = MomentAlignedRegressor(setting["gradient_weight"], l2=setting["l2_factor"] / 60, tol=1e-9)
            if setting.get("domain_intercepts"):
                model = WithinDomains(setting["l2_factor"]).fit(X[kept], targets[kept], site[kept])
            else:
                model.fit(X[kept], targets[kept], domains=site[kept] if setting["balanced"] else np.zeros(60, int))
            assert score == pytest.approx(get_scorer(scoring)(model, X[~kept], targets[~kept]), abs=1e-6)
    assert fitted.predict(X).shape == (90, outputs)


def test_a_point_of_an_error_is_a_hundredth_of_it() -> None:
    X, y, site = shortcut_sites((1.0, 0.5, 0.0, -0.5))
    options = {"gradient_weights": (0.1, 1, 10), "l2_factors": (10, 100), "scoring": "neg_root_mean_squared_error"}
    small, large = (MomentAlignedRegressorCV(**options).fit(X, scale * y, domains=site) for scale in (1, 1000))
    assert small.outcomes_ == large.outcomes_
    np.testing.assert_allclose(1000 * small.coef_, large.coef_, rtol=1e-3)


def test_a_domain_whose_targets_do_not_vary_works() -> None:
    X, y, site = shortcut_sites((1.0, 0.0, -1.0))
    constant = np.where(site == "site 1", 0.0, y)
    assert np.isfinite(MomentAlignedRegressorCV(rule="best").fit(X, constant, domains=site).scores_).all()


def test_weight_in_one_domain_only_is_the_incumbent() -> None:
    rng = np.random.default_rng(0)
    X, site = rng.normal(size=(60, 2)), np.repeat(["a", "b", "c"], 20)
    with pytest.warns(UserWarning, match="All rows are of domain 'b'"):
        model = MomentAlignedRegressorCV().fit(X, X[:, 0], domains=site, sample_weight=(site == "b").astype(float))
    expected = Ridge().fit(X[site == "b"], X[site == "b", 0])
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6)
    assert "one domain to choose by" in model.reason_
