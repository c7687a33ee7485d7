"""Classifier and regressor that choose their weights."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer, log_loss

from momentalign.sklearn import (
    MomentAlignedClassifier,
    MomentAlignedClassifierCV,
    MomentAlignedRegressor,
    MomentAlignedRegressorCV,
)
from tests.linear.problems import make_problem

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
one_domain = pytest.mark.filterwarnings("ignore:All rows are of domain")


def classes_of_sites(strengths: tuple[float, ...], rows: int = 300) -> Rows:
    """One feature that lasts, one that helps by another strength at every site."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, len(strengths) * rows)
    strength = np.repeat(strengths, rows)
    sign = 2 * y - 1
    X = np.column_stack([sign + 1.2 * rng.normal(size=len(y)), strength * sign + 0.6 * rng.normal(size=len(y))])
    return X, y, np.repeat([f"site {k}" for k in range(len(strengths))], rows)


def numbers_of_sites(strengths: tuple[float, ...], rows: int = 100) -> Rows:
    """One column that causes y, one that y causes, by another strength at every site."""
    rng = np.random.default_rng(0)
    cause = rng.normal(size=len(strengths) * rows)
    y = cause + 0.5 * rng.normal(size=len(cause))
    effect = np.repeat(strengths, rows) * y + 0.3 * rng.normal(size=len(cause))
    return np.column_stack([cause, effect]), y, np.repeat([f"site {k}" for k in range(len(strengths))], rows)


def balanced_loss(coef: np.ndarray, intercept: np.ndarray, X: np.ndarray, y: np.ndarray, site: np.ndarray) -> float:
    losses = np.logaddexp(0, -(2 * y - 1) * (X @ coef[0] + intercept[0]))
    norm = np.square(coef).sum() / len(X)
    return float(np.mean([losses[site == one].mean() for one in np.unique(site)]) + 0.5 * norm)


class WithinDomains(Ridge):
    """Ridge regression with one-hot domains, of which a new row has none."""

    def fit(self, X: np.ndarray, y: np.ndarray, site: np.ndarray) -> "WithinDomains":
        super().fit(np.hstack([X, site[:, None] == np.unique(site)]), y)
        self.coef_, self.n_features_in_ = self.coef_[..., : X.shape[1]], X.shape[1]
        return self


def test_it_aligns_where_every_left_out_domain_gains() -> None:
    X, y, site = classes_of_sites((1.0, 0.0, -1.0))
    fitted = MomentAlignedClassifierCV((), (10,), ()).fit(X, y, domains=site)
    assert fitted.hessian_weight_ == 10
    assert fitted.aligned_
    assert fitted.scale_ < 1
    assert fitted.outcomes_[-1] == "chosen"
    assert "Hessian weight 10 gained" in fitted.reason_
    X2, y2, _ = classes_of_sites((-3.0,))
    assert fitted.score(X2, y2) > LogisticRegression().fit(X, y).score(X2, y2) + 0.02
    X, y, site = numbers_of_sites((1.0, -1.0, 1.0, -1.0))
    aligned = MomentAlignedRegressorCV((0.1, 10), ()).fit(X, y, domains=site)
    weights = [setting["gradient_weight"] for setting in aligned.candidates_]
    assert aligned.gradient_weight_ > 0
    assert aligned.outcomes_[weights.index(aligned.gradient_weight_)] == "chosen"


@pytest.mark.parametrize(
    ("search", "make", "strengths", "beyond"),
    [
        (MomentAlignedClassifierCV((), (10,), ()), classes_of_sites, (1.5, 1.5, 1.5, 0.0, -1.0), -3.0),
        (MomentAlignedRegressorCV((1,), ()), numbers_of_sites, (1.0, 1.0, 0.0, 0.0), -2.0),
    ],
)
def test_a_left_out_domain_that_loses_a_point_forbids_the_step(search, make, strengths, beyond) -> None:
    """Where the shortcut is at its strongest, doing without it costs something."""
    X, y, site = make(strengths)
    cautious = search.fit(X, y, domains=site)
    aligned = [setting["gradient_weight"] + setting["hessian_weight"] > 0 for setting in cautious.candidates_]
    lost = np.flatnonzero(aligned)[-1]
    assert not cautious.aligned_
    assert cautious.outcomes_[lost] == "loses more than a point on a left-out fold"
    assert np.isnan(cautious.scores_[lost])
    X2, y2, _ = make((beyond,))
    score = cautious.score(X2, y2)
    best = search.set_params(rule="best").fit(X, y, domains=site)
    assert best.aligned_
    assert np.isfinite(best.scores_).all()
    assert best.score(X2, y2) > score


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_without_evidence_it_is_the_plain_model(classes: int) -> None:
    X, y, domains = make_problem(classes, n=150).columns if classes else numbers_of_sites((0.5, 0.5, 0.5), rows=50)
    plain = LogisticRegression(tol=1e-9, max_iter=1000) if classes else Ridge()
    search = (
        MomentAlignedClassifierCV((1000,), (), (), tol=1e-8)
        if classes
        else MomentAlignedRegressorCV((1e4,), (), domain_intercepts=False)
    )
    fitted = search.fit(X, y, domains=domains)
    assert (fitted.gradient_weight_, fitted.l2_factor_, fitted.balanced_, fitted.aligned_) == (0, 1, False, False)
    assert fitted.l2_ == 1 / 150
    np.testing.assert_allclose(fitted.coef_, plain.fit(X, y).coef_, atol=1e-5)
    name, least, metric = (
        ("LogisticRegression", "0.1 points", "balanced accuracy")
        if classes
        else ("Ridge", "0.1%", "root mean squared error")
    )
    told = f"{name}'s defaults: none of 2 candidates gained more than a standard error and {least} in {metric} on 3 "
    assert fitted.reason_.startswith(told)
    weights = np.random.default_rng(0).random(150)
    fitted.fit(X, y, domains=domains, sample_weight=weights)
    assert fitted.l2_ == 1 / weights.sum()
    np.testing.assert_allclose(fitted.coef_, plain.fit(X, y, sample_weight=weights).coef_, atol=1e-5)


def test_l2_changes_only_on_evidence() -> None:
    X, y, site = classes_of_sites((0.5, 0.5, 0.5), rows=40)
    rng = np.random.default_rng(0)
    wide = np.hstack([0.3 * X, rng.normal(size=(len(X), 60))])  # noise that L2 takes away
    fitted = MomentAlignedClassifierCV((), (), (1e-3, 100.0), scoring="neg_log_loss").fit(wide, y, domains=site)
    assert [setting["l2_factor"] for setting in fitted.candidates_] == [1.0, 100.0, 1e-3, 100.0]
    assert fitted.l2_ == 100 / len(X)
    assert "L2 100/n gained" in fitted.reason_
    # Class labels that have nothing to do with the features: no L2 is better than another.
    noise = MomentAlignedClassifierCV((), (), (1e-3, 100.0)).fit(wide, rng.permutation(y), domains=site)
    assert noise.l2_factor_ == 1


@one_domain
@pytest.mark.filterwarnings("ignore:Without 'domains'")
@pytest.mark.parametrize("domains", [0, 1, 2])
def test_fewer_than_three_domains_are_the_incumbent(domains: int) -> None:
    X, y, site = classes_of_sites((1.5, -0.3), rows=50)
    given = [None, ["one"] * 100, site][domains]
    fitted = MomentAlignedClassifierCV(tol=1e-8).fit(X, y, domains=given)
    np.testing.assert_allclose(fitted.coef_, LogisticRegression(tol=1e-9).fit(X, y).coef_, atol=1e-5)
    assert fitted.reason_.startswith(f"LogisticRegression's defaults: {('no', 'one', 'two')[domains]} domain")
    assert len(fitted.candidates_) == len(fitted.scores_) == len(fitted.outcomes_) == 1
    assert not fitted.aligned_


@one_domain
def test_the_refit_is_the_classifier_with_the_chosen_weights() -> None:
    X, y, domains = make_problem(3, n=150).columns
    chosen = MomentAlignedClassifierCV((1,), (1,), (10,), rule="best").fit(X, y, domains=domains)
    assert len(chosen.candidates_) == 2 + 3
    assert chosen.scores_.shape == chosen.standard_errors_.shape == (5,)
    assert {setting["l2_factor"] for setting in chosen.candidates_[2:]} == {chosen.l2_factor_}
    names = ("gradient_weight", "hessian_weight", "l2_factor", "balanced")
    setting = {name: getattr(chosen, f"{name}_") for name in names}
    assert chosen.scores_[chosen.candidates_.index(setting)] == max(chosen.scores_)
    alone = MomentAlignedClassifier(chosen.gradient_weight_, chosen.hessian_weight_, l2=chosen.l2_, tol=1e-5)
    alone.fit(X, y, domains=domains if chosen.balanced_ else ["one"] * 150)
    np.testing.assert_allclose(chosen.coef_, chosen.scale_ * alone.coef_)
    assert (chosen.scale_ != 1) == chosen.aligned_


@one_domain
@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "balanced_accuracy", "roc_auc"])
def test_scores_of_classifiers_are_those_of_fits_without_the_domain(scoring: str) -> None:
    X, y, site = classes_of_sites((1.0, 0.5, 0.0), rows=60)
    fitted = MomentAlignedClassifierCV((1,), (), (10,), scoring=scoring, rule="best", tol=1e-7)
    fitted.fit(X, y, domains=site)
    assert fitted.folds_ == [["site 0"], ["site 1"], ["site 2"]]
    for setting, each in zip(fitted.candidates_, fitted.fold_scores_, strict=True):
        for left_out, score in zip(np.unique(site), each, strict=True):
            kept = site != left_out
            model = MomentAlignedClassifier(setting["gradient_weight"], 0, l2=setting["l2_factor"] / 120, tol=1e-7)
            model.fit(X[kept], y[kept], domains=site[kept] if setting["balanced"] else np.zeros(120, int))
            if setting["gradient_weight"]:  # the length that the loss asks for
                head = model.coef_, model.intercept_
                rows = X[kept], y[kept], site[kept]
                scale = min(
                    np.geomspace(0.1, 2, 1000), key=lambda scale: balanced_loss(*(scale * part for part in head), *rows)
                )
                model.coef_, model.intercept_ = (scale * part for part in head)
            assert score == pytest.approx(get_scorer(scoring)(model, X[~kept], y[~kept]), abs=2e-3)
    np.testing.assert_allclose(fitted.scores_, fitted.fold_scores_.mean(1))


@one_domain
@pytest.mark.parametrize("scoring", ["r2", "neg_root_mean_squared_error"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_scores_of_regressors_are_those_of_fits_without_the_domain(outputs: int, scoring: str) -> None:
    X, y, site = numbers_of_sites((1.0, 0.5, 0.0), rows=30)
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


def test_a_scorer_and_classes_that_a_domain_does_not_have() -> None:
    X, y, site = classes_of_sites((1.0, 0.5, 0.0, 0.2), rows=60)
    names, kept = np.where((site == "site 3") | (y == 0), "no", "yes"), site != "site 3"
    plain = LogisticRegression(tol=1e-9).fit(X[kept], names[kept])

    def true_negatives(model: MomentAlignedClassifierCV, X: np.ndarray, y: np.ndarray) -> float:
        return float(np.mean(model.predict(X)[y == "no"] == "no"))

    expected = {
        "neg_log_loss": -log_loss(names[~kept], plain.predict_proba(X[~kept]), labels=["no", "yes"]),
        "roc_auc": np.nan,
        true_negatives: true_negatives(plain, X[~kept], names[~kept]),
    }
    for scoring, score in expected.items():
        fitted = MomentAlignedClassifierCV((1,), (), (), scoring=scoring, tol=1e-8).fit(X, names, domains=site)
        assert np.isfinite(fitted.fold_scores_[0, :3]).all()
        assert fitted.fold_scores_[0, 3] == pytest.approx(score, abs=1e-6, nan_ok=True)
        assert getattr(scoring, "__name__", scoring) in fitted.reason_


def test_many_domains_are_left_out_in_folds() -> None:
    X, y, _ = classes_of_sites((0.5,), rows=300)
    site = np.repeat(np.arange(24), [30] * 4 + [9] * 20)
    fitted = MomentAlignedClassifierCV((), (), (10,)).fit(X, y, domains=site)
    assert len(fitted.folds_) == 10
    assert sorted(domain for fold in fitted.folds_ for domain in fold) == list(range(24))
    rows = [np.isin(site, fold).sum() for fold in fitted.folds_]
    assert max(rows) - min(rows) <= 9
    assert "10 left-out folds of domains" in fitted.reason_
    assert len(fitted.set_params(folds=4).fit(X, y, domains=site).folds_) == 4


def test_jobs_do_not_change_the_result_and_the_callback_counts_the_splits() -> None:
    X, y, site = classes_of_sites((2.0, 1.0, 0.0, -1.0), rows=60)
    fits, calls = [], []
    for jobs in (1, 2):
        search = MomentAlignedClassifierCV(
            (1, 10), (10,), (10,), n_jobs=jobs, callback=lambda *done: calls.append(done)
        )
        fits.append(search.fit(X, y, domains=site))
    for name in ("fold_scores_", "coef_", "outcomes_"):
        np.testing.assert_array_equal(*(getattr(fit, name) for fit in fits))
    assert calls == 2 * [(done, 8) for done in range(1, 9)]


def test_rows_of_weight_zero_count_as_left_out() -> None:
    rng = np.random.default_rng(0)
    X, y, site = rng.normal(size=(80, 2)), np.arange(80) % 2, np.repeat(["a", "b", "c", "d"], 20)
    models = [MomentAlignedClassifierCV((1.0,), (), (0.1,), folds=3) for _ in range(2)]
    for kept in (site == "b", site != "c", np.arange(80) % 4 > 0):
        moved = np.where(kept[:, None], X, X + 10.0)  # which would change every fit and every score
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            models[0].fit(moved, y, domains=site, sample_weight=kept.astype(float))
            models[1].fit(X[kept], y[kept], domains=site[kept], sample_weight=np.ones(kept.sum()))
        for name in ("coef_", "scores_", "domains_", "reason_"):
            np.testing.assert_array_equal(*(getattr(model, name) for model in models))
    with pytest.raises(ValueError, match=r"should be above 0 for some rows|must contain at least one non-zero number"):
        models[0].fit(X, y, domains=site, sample_weight=np.zeros(80))


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
    plain = {"gradient_weight": 0.0, "hessian_weight": 0.0, "l2_factor": 1.0, "balanced": False}
    assert fitted.candidates_[-1] == plain | {"domain_intercepts": True}
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
    X, y, site = numbers_of_sites((1.0, 1.0, 1.0, 1.0, 0.0, 0.0), rows=60)
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
    X, y, site = numbers_of_sites((0.5, 0.5, 0.5))
    for most, tried in ((900, True), (899, False)):
        monkeypatch.setattr("momentalign.sklearn._regressor._INDICATORS", most)
        fitted = MomentAlignedRegressorCV(l2_factors=()).fit(X, y, domains=site)
        assert any(setting.get("domain_intercepts") for setting in fitted.candidates_) == tried


def test_a_point_of_an_error_is_a_hundredth_of_it() -> None:
    X, y, site = numbers_of_sites((1.0, 0.5, 0.0, -0.5))
    small, large = (
        MomentAlignedRegressorCV((0.1, 1, 10), (10, 100)).fit(X, scale * y, domains=site) for scale in (1, 1000)
    )
    assert small.outcomes_ == large.outcomes_
    np.testing.assert_allclose(1000 * small.coef_, large.coef_, rtol=1e-3)


def test_a_domain_whose_targets_do_not_vary_works() -> None:
    X, y, site = numbers_of_sites((1.0, 0.0, -1.0))
    constant = np.where(site == "site 1", 0.0, y)
    assert np.isfinite(MomentAlignedRegressorCV(rule="best").fit(X, constant, domains=site).scores_).all()


def test_weight_in_one_domain_only_is_the_incumbent() -> None:
    rng = np.random.default_rng(0)
    X, site = rng.normal(size=(60, 2)), np.repeat(["a", "b", "c"], 20)
    with pytest.warns(UserWarning, match="All rows are of domain 'b'"):
        model = MomentAlignedRegressorCV().fit(X, X[:, 0], domains=site, sample_weight=(site == "b").astype(float))
    np.testing.assert_allclose(model.coef_, Ridge().fit(X[site == "b"], X[site == "b", 0]).coef_, rtol=1e-6)
    assert "one domain to choose by" in model.reason_
