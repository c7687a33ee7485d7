import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, log_loss

from momentalign.sklearn import MomentAlignedClassifier, MomentAlignedClassifierCV
from tests.linear.problems import make_problem


def shortcut_sites(strengths: tuple[float, ...], rows: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One feature that lasts, one that helps by another strength at every site."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, len(strengths) * rows)
    strength = np.repeat(strengths, rows)
    sign = 2 * y - 1
    X = np.column_stack([sign + 1.2 * rng.normal(size=len(y)), strength * sign + 0.6 * rng.normal(size=len(y))])
    return X, y, np.repeat([f"site {k}" for k in range(len(strengths))], rows)


def balanced_loss(coef: np.ndarray, intercept: np.ndarray, X: np.ndarray, y: np.ndarray, site: np.ndarray) -> float:
    losses = np.logaddexp(0, -(2 * y - 1) * (X @ coef[0] + intercept[0]))
    norm = np.square(coef).sum() / len(X)
    return float(np.mean([losses[site == one].mean() for one in np.unique(site)]) + 0.5 * norm)


def test_it_aligns_where_every_left_out_domain_gains() -> None:
    X, y, site = shortcut_sites((1.0, 0.0, -1.0))
    fitted = MomentAlignedClassifierCV((), (10,), ()).fit(X, y, domains=site)
    assert fitted.hessian_weight_ == 10
    assert fitted.aligned_
    assert fitted.scale_ < 1
    assert fitted.outcomes_[-1] == "chosen"
    assert "Hessian weight 10 gained" in fitted.reason_
    X2, y2, _ = shortcut_sites((-3.0,))
    assert fitted.score(X2, y2) > LogisticRegression().fit(X, y).score(X2, y2) + 0.02


def test_a_left_out_domain_that_loses_a_point_forbids_the_step() -> None:
    X, y, site = shortcut_sites((1.5, 1.5, 1.5, 0.0, -1.0))
    best, cautious = (
        MomentAlignedClassifierCV((), (10,), (), rule=rule).fit(X, y, domains=site) for rule in ("best", "cautious")
    )
    # Where the shortcut is at its strongest, doing without it costs something.
    assert best.aligned_
    assert not cautious.aligned_
    assert cautious.outcomes_[-1] == "loses more than a point on a left-out fold"
    assert np.isnan(cautious.scores_[-1])
    assert np.isfinite(best.scores_).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_without_evidence_it_is_logistic_regression(classes: int) -> None:
    problem = make_problem(classes, n=150, domains=3)
    plain = LogisticRegression(tol=1e-9, max_iter=1000).fit(problem.features, problem.targets)
    fitted = MomentAlignedClassifierCV((1000,), (), (), tol=1e-8)
    fitted.fit(problem.features, problem.targets, domains=problem.domains)
    assert (fitted.gradient_weight_, fitted.hessian_weight_, fitted.l2_factor_, fitted.balanced_) == (0, 0, 1, False)
    assert fitted.l2_ == 1 / 150
    np.testing.assert_allclose(fitted.coef_, plain.coef_, atol=1e-5)
    assert fitted.reason_.startswith(
        "LogisticRegression's defaults: none of 2 candidates gained more than a standard error and 0.1 points in"
    )
    weights = np.random.default_rng(0).random(150)
    fitted.fit(problem.features, problem.targets, domains=problem.domains, sample_weight=weights)
    plain.fit(problem.features, problem.targets, sample_weight=weights)
    if fitted.candidates_[0]["l2_factor"] == fitted.l2_factor_ and not fitted.balanced_:
        np.testing.assert_allclose(fitted.coef_, plain.coef_, atol=1e-5)


def test_l2_changes_only_on_evidence() -> None:
    X, y, site = shortcut_sites((0.5, 0.5, 0.5), rows=40)
    rng = np.random.default_rng(0)
    wide = np.hstack([0.3 * X, rng.normal(size=(len(X), 60))])  # noise that L2 takes away
    fitted = MomentAlignedClassifierCV((), (), (1e-3, 100.0), scoring="neg_log_loss").fit(wide, y, domains=site)
    assert [setting["l2_factor"] for setting in fitted.candidates_] == [1.0, 100.0, 1e-3, 100.0]
    assert fitted.l2_factor_ == 100
    assert fitted.l2_ == 100 / len(X)
    assert "L2 100/n gained" in fitted.reason_
    # Class labels that have nothing to do with the features: no L2 is better than another.
    noise = MomentAlignedClassifierCV((), (), (1e-3, 100.0)).fit(wide, rng.permutation(y), domains=site)
    assert noise.l2_factor_ == 1


@pytest.mark.parametrize("domains", [0, 1, 2])
@pytest.mark.filterwarnings("ignore:Without 'domains'", "ignore:All rows are of domain")
def test_fewer_than_three_domains_are_the_incumbent(domains: int) -> None:
    X, y, site = shortcut_sites((1.5, -0.3), rows=50)
    given = [None, ["one"] * 100, site][domains]
    fitted = MomentAlignedClassifierCV(tol=1e-8).fit(X, y, domains=given)
    np.testing.assert_allclose(fitted.coef_, LogisticRegression(tol=1e-9).fit(X, y).coef_, atol=1e-5)
    assert fitted.reason_.startswith(f"LogisticRegression's defaults: {('no', 'one', 'two')[domains]} domain")
    assert len(fitted.candidates_) == len(fitted.scores_) == len(fitted.outcomes_) == 1
    assert not fitted.aligned_


@pytest.mark.filterwarnings("ignore:All rows are of domain")
def test_the_refit_is_the_classifier_with_the_chosen_weights() -> None:
    problem = make_problem(3, n=150, domains=3)
    rows = {"X": problem.features, "y": problem.targets, "domains": problem.domains}
    chosen = MomentAlignedClassifierCV((1,), (1,), (10,), rule="best").fit(**rows)
    assert len(chosen.candidates_) == 2 + 3
    assert chosen.scores_.shape == chosen.standard_errors_.shape == (5,)
    assert {setting["l2_factor"] for setting in chosen.candidates_[2:]} == {chosen.l2_factor_}
    setting = {
        "gradient_weight": chosen.gradient_weight_,
        "hessian_weight": chosen.hessian_weight_,
        "l2_factor": chosen.l2_factor_,
        "balanced": chosen.balanced_,
    }
    assert chosen.scores_[chosen.candidates_.index(setting)] == max(chosen.scores_)
    alone = MomentAlignedClassifier(chosen.gradient_weight_, chosen.hessian_weight_, l2=chosen.l2_, tol=1e-5)
    alone.fit(**rows if chosen.balanced_ else rows | {"domains": ["one"] * 150})
    np.testing.assert_allclose(chosen.coef_, chosen.scale_ * alone.coef_)
    assert (chosen.scale_ != 1) == chosen.aligned_


@pytest.mark.filterwarnings("ignore:All rows are of domain")
@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "balanced_accuracy", "roc_auc"])
def test_scores_are_those_of_fits_without_the_domain(scoring: str) -> None:
    X, y, site = shortcut_sites((1.0, 0.5, 0.0), rows=60)
    fitted = MomentAlignedClassifierCV((1,), (), (10,), scoring=scoring, rule="best", tol=1e-7)
    fitted.fit(X, y, domains=site)
    assert fitted.folds_ == [["site 0"], ["site 1"], ["site 2"]]
    for setting, each in zip(fitted.candidates_, fitted.fold_scores_, strict=True):
        for left_out, score in zip(np.unique(site), each, strict=True):
            kept = site != left_out
            model = MomentAlignedClassifier(setting["gradient_weight"], 0, l2=setting["l2_factor"] / 120, tol=1e-7)
            model.fit(X[kept], y[kept], domains=site[kept] if setting["balanced"] else np.zeros(120, int))
            if setting["gradient_weight"]:  # the length that the loss asks for
                losses = {
                    scale: balanced_loss(scale * model.coef_, scale * model.intercept_, X[kept], y[kept], site[kept])
                    for scale in np.geomspace(0.1, 2, 1000)
                }
                scale = min(losses, key=losses.__getitem__)
                model.coef_, model.intercept_ = scale * model.coef_, scale * model.intercept_
            assert score == pytest.approx(get_scorer(scoring)(model, X[~kept], y[~kept]), abs=2e-3)
    np.testing.assert_allclose(fitted.scores_, fitted.fold_scores_.mean(1))


def test_a_scorer_and_classes_that_a_domain_does_not_have() -> None:
    X, y, site = shortcut_sites((1.0, 0.5, 0.0, 0.2), rows=60)
    names = np.where((site == "site 3") | (y == 0), "no", "yes")
    for scoring, undefined in [("neg_log_loss", False), ("roc_auc", True), ("balanced_accuracy", False)]:
        fitted = MomentAlignedClassifierCV((1,), (), (), scoring=scoring).fit(X, names, domains=site)
        assert np.isnan(fitted.fold_scores_[0]).tolist() == [False, False, False, undefined]
    kept = site != "site 3"
    plain = LogisticRegression(tol=1e-9).fit(X[kept], names[kept])
    fitted = MomentAlignedClassifierCV((), (), (), scoring="neg_log_loss", tol=1e-8).fit(X, names, domains=site)
    expected = -log_loss(names[~kept], plain.predict_proba(X[~kept]), labels=["no", "yes"])
    assert fitted.fold_scores_[0, 3] == pytest.approx(expected, abs=1e-6)

    def true_negatives(model: MomentAlignedClassifierCV, X: np.ndarray, y: np.ndarray) -> float:
        return float(np.mean(model.predict(X)[y == "no"] == "no"))

    fitted = MomentAlignedClassifierCV((), (), (), scoring=true_negatives, tol=1e-8).fit(X, names, domains=site)
    assert fitted.fold_scores_[0, 3] == true_negatives(plain, X[~kept], names[~kept])
    assert "true_negatives" in fitted.reason_


def test_many_domains_are_left_out_in_folds() -> None:
    X, y, _ = shortcut_sites((0.5,), rows=300)
    site = np.repeat(np.arange(24), [30] * 4 + [9] * 20)
    fitted = MomentAlignedClassifierCV((), (), (10,)).fit(X, y, domains=site)
    assert len(fitted.folds_) == 10
    assert sorted(domain for fold in fitted.folds_ for domain in fold) == list(range(24))
    rows = [np.isin(site, fold).sum() for fold in fitted.folds_]
    assert max(rows) - min(rows) <= 9
    assert "10 left-out folds of domains" in fitted.reason_
    assert len(fitted.set_params(folds=4).fit(X, y, domains=site).folds_) == 4


def test_the_number_of_jobs_does_not_change_the_result() -> None:
    X, y, site = shortcut_sites((2.0, 1.0, 0.0, -1.0), rows=60)
    search = MomentAlignedClassifierCV((1, 10), (10,), (10,), callback=lambda done, total: None)
    one = search.fit(X, y, domains=site)
    scores, coef, outcomes = one.fold_scores_, one.coef_, one.outcomes_
    two = search.set_params(n_jobs=2).fit(X, y, domains=site)
    np.testing.assert_array_equal(two.fold_scores_, scores)
    np.testing.assert_array_equal(two.coef_, coef)
    assert two.outcomes_ == outcomes


def test_the_callback_counts_the_splits() -> None:
    problem = make_problem(2, domains=3)
    calls: list[tuple[int, int]] = []
    search = MomentAlignedClassifierCV((1000,), (), (10,), callback=lambda done, total: calls.append((done, total)))
    search.fit(problem.features, problem.targets, domains=problem.domains)
    assert calls == [(done, 6) for done in range(1, 7)]


def test_rows_of_weight_zero_count_as_left_out() -> None:
    rng = np.random.default_rng(0)
    X, y, site = rng.normal(size=(80, 2)), np.arange(80) % 2, np.repeat(["a", "b", "c", "d"], 20)
    for kept in (site == "b", site != "c", np.arange(80) % 4 > 0):
        moved = np.where(kept[:, None], X, X + 10.0)  # which would change every fit and every score
        models = [MomentAlignedClassifierCV((1.0,), (), (0.1,), folds=3) for _ in range(2)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            models[0].fit(moved, y, domains=site, sample_weight=kept.astype(float))
            models[1].fit(X[kept], y[kept], domains=site[kept], sample_weight=np.ones(kept.sum()))
        np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
        np.testing.assert_array_equal(models[0].scores_, models[1].scores_)
        assert models[0].domains_.tolist() == models[1].domains_.tolist()
        assert models[0].reason_ == models[1].reason_
    with pytest.raises(ValueError, match=r"should be above 0 for some rows|must contain at least one non-zero number"):
        models[0].fit(X, y, domains=site, sample_weight=np.zeros(80))


def test_bad_parameters() -> None:
    problem = make_problem(2)
    for parameters, message in [
        ({"rule": "worst"}, "'rule' should be one of"),
        ({"scoring": "auc"}, "'scoring' parameter of check_scoring"),
        ({"folds": 2}, "'folds' should be at least 3"),
        ({"l2_factors": (-1.0,)}, "'l2_factors' should be finite"),
        ({"gradient_weights": (-1.0,)}, "'gradient_weights' should be finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            MomentAlignedClassifierCV(**parameters).fit(problem.features, problem.targets, domains=problem.domains)
