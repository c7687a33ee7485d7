import numpy as np
import pytest
from sklearn.metrics import log_loss

from momentalign.sklearn import MomentAlignedClassifier, MomentAlignedClassifierCV
from momentalign.sklearn._search import choose, stratified_folds
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
    return float(np.mean([losses[site == one].mean() for one in np.unique(site)]) + 0.005 * np.square(coef).sum())


def test_it_aligns_where_that_pays() -> None:
    X, y, site = shortcut_sites((1.0, 0.2), rows=400)
    fitted = MomentAlignedClassifierCV((0, 10), (0, 10), (1e-2,)).fit(X, y, domains=site)
    assert fitted.aligned_
    assert fitted.scale_ < 1
    X2, y2, _ = shortcut_sites((-1.0,))
    plain = MomentAlignedClassifier(0, 0).fit(X, y)
    assert fitted.score(X2, y2) > plain.score(X2, y2) + 0.05


def test_caution_takes_no_weight_that_loses_on_a_domain_left_out() -> None:
    X, y, site = shortcut_sites((2.0, 1.0, 0.0, -1.0))
    best, cautious = (
        MomentAlignedClassifierCV((0,), (0, 10), (1e-2,), rule=rule).fit(X, y, domains=site)
        for rule in ("best", "cautious")
    )
    # Where the shortcut is at its strongest, doing without it costs something: not every domain gains.
    assert best.aligned_
    assert not cautious.aligned_
    X, y, site = shortcut_sites((1.0, 0.0, -1.0))
    assert MomentAlignedClassifierCV((0,), (0, 10), (1e-2,)).fit(X, y, domains=site).hessian_weight_ == 10


def test_it_stays_plain_where_nothing_is_to_gain() -> None:
    X, y, site = shortcut_sites((0.5, 0.5, 0.5, 0.5))
    fitted = MomentAlignedClassifierCV().fit(X, y, domains=site)
    assert not fitted.aligned_
    assert (fitted.gradient_weight_, fitted.hessian_weight_) == (0, 0)


@pytest.mark.parametrize("selection", ["leave_one_domain_out", "worst_group"])
@pytest.mark.parametrize("domains", [2, 3])
def test_the_refit_is_the_classifier_with_the_chosen_weights(domains: int, selection: str) -> None:
    problem = make_problem(3, n=150, domains=domains)
    rows = {"X": problem.features, "y": problem.targets, "domains": problem.domains}
    chosen = MomentAlignedClassifierCV((1,), (1,), (1e-2, 1e-1), selection=selection, rule="best").fit(**rows)
    assert len(chosen.candidates_) == 2 + 3
    assert chosen.scores_.shape == chosen.standard_errors_.shape == (5,)
    assert {setting["l2"] for setting in chosen.candidates_[2:]} == {chosen.l2_}
    index = chosen.candidates_.index(
        {
            "gradient_weight": chosen.gradient_weight_,
            "hessian_weight": chosen.hessian_weight_,
            "l2": chosen.l2_,
            "balanced": chosen.balanced_,
        }
    )
    assert chosen.scores_[index] == max(chosen.scores_[[*range(2, 5), index]])
    alone = MomentAlignedClassifier(chosen.gradient_weight_, chosen.hessian_weight_, l2=chosen.l2_)
    alone.fit(**rows if chosen.balanced_ else rows | {"domains": None})
    np.testing.assert_allclose(chosen.coef_, chosen.scale_ * alone.coef_)
    assert (chosen.scale_ != 1) == chosen.aligned_


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss"])
def test_scores_are_those_of_fits_without_the_domain(scoring: str) -> None:
    X, y, site = shortcut_sites((1.0, 0.5, 0.0), rows=60)
    fitted = MomentAlignedClassifierCV((1,), (0,), (1e-2,), scoring=scoring, tol=1e-6).fit(X, y, domains=site)
    for setting, score in zip(fitted.candidates_, fitted.scores_, strict=True):
        each = []
        for left_out in np.unique(site):
            kept = site != left_out
            model = MomentAlignedClassifier(setting["gradient_weight"], 0, l2=setting["l2"], tol=1e-6)
            model.fit(X[kept], y[kept], domains=site[kept] if setting["balanced"] else None)
            if scoring == "accuracy":
                each.append(model.score(X[~kept], y[~kept]))
                continue
            if setting["gradient_weight"]:  # the length that the loss asks for
                losses = {
                    scale: balanced_loss(scale * model.coef_, scale * model.intercept_, X[kept], y[kept], site[kept])
                    for scale in np.geomspace(0.1, 2, 1000)
                }
                scale = min(losses, key=losses.__getitem__)
                model.coef_, model.intercept_ = scale * model.coef_, scale * model.intercept_
            each.append(-log_loss(y[~kept], model.predict_proba(X[~kept])))
        assert score == pytest.approx(np.mean(each), abs=1e-4)


def test_pairs_of_weights_are_tried_where_asked() -> None:
    X, y, site = shortcut_sites((1.0, 0.5, 0.0), rows=40)
    fitted = MomentAlignedClassifierCV((1, 10), (1, 10), (1e-2,), combine=True).fit(X, y, domains=site)
    weights = {(setting["gradient_weight"], setting["hessian_weight"]) for setting in fitted.candidates_}
    assert weights == {(gradient, hessian) for gradient in (0, 1, 10) for hessian in (0, 1, 10)}


def test_l2_is_that_of_the_best_plain_model() -> None:
    X, y, site = shortcut_sites((1.0, 0.5, 0.0), rows=40)
    fitted = MomentAlignedClassifierCV((), (), (1e-3, 1.0, 30.0)).fit(X, y, domains=site)
    assert [setting["balanced"] for setting in fitted.candidates_] == [False] * 3 + [True]
    assert fitted.l2_ == fitted.candidates_[int(fitted.scores_[:3].argmax())]["l2"]


def test_two_domains_choose_l2_against_each_other_and_weights_by_the_worse() -> None:
    X, y, site = shortcut_sites((1.5, -0.3), rows=200)
    fitted = MomentAlignedClassifierCV((0, 10, 100), (0,), (1e-3, 10.0), rule="best").fit(X, y, domains=site)
    each = {}
    for l2 in (1e-3, 10.0):
        each[l2] = np.mean(
            [
                -log_loss(y[site != one], plain.predict_proba(X[site != one]))
                for one in np.unique(site)
                if (plain := MomentAlignedClassifier(0, 0, l2=l2).fit(X[site == one], y[site == one]))
            ]
        )
    # Each domain's shortcut misleads about the other: strong L2 loses less, though in folds of both it loses.
    assert fitted.l2_ == max(each, key=each.__getitem__) == 10.0
    assert fitted.scores_[1] < fitted.scores_[0]
    X, y, site = shortcut_sites((1.0, 0.2), rows=200)
    fitted = MomentAlignedClassifierCV((), (10,), (1e-2,)).fit(X, y, domains=site)
    losses = []
    for train, test in stratified_folds(2 * (site == "site 1") + y, 5, np.random.RandomState(0)):
        plain = MomentAlignedClassifier(0, 0, l2=1e-2).fit(X[train], y[train])
        losses.append(np.column_stack([test, plain.predict_log_proba(X[test])[np.arange(len(test)), y[test]]]))
    by_row = np.concatenate(losses)[np.argsort(np.concatenate(losses)[:, 0]), 1]
    assert fitted.scores_[0] == pytest.approx(min(by_row[site == one].mean() for one in np.unique(site)), abs=1e-3)


def test_groups_are_given_or_made() -> None:
    X, y, site = shortcut_sites((1.0, -0.5), rows=100)
    cv = MomentAlignedClassifierCV((0, 10), (0,), (1e-2,), selection="worst_group")
    made = cv.fit(X, y, domains=site).scores_
    given = cv.fit(X, y, domains=site, groups=[f"{s}/{label}" for s, label in zip(site, y, strict=True)]).scores_
    np.testing.assert_allclose(made, given)
    one = cv.fit(X, y, domains=site, groups=["all"] * 200).scores_
    assert (one > made).all()
    with pytest.raises(ValueError, match="'groups' should have one entry per row"):
        cv.fit(X, y, domains=site, groups=["all"] * 199)


def test_a_cautious_choice_of_the_mean_loses_nowhere() -> None:
    units = np.repeat([0, 1, 2], 4)
    plain, everywhere, elsewhere = np.full(12, 0.5), np.full(12, 0.6), np.full(12, 0.9)
    elsewhere[:4] = 0.4
    scores = np.stack([plain, everywhere, elsewhere])
    assert choose(scores, units, worst=False, cautious=True).candidate == 1
    assert choose(scores, units, worst=False, cautious=False).candidate == 2
    assert choose(scores, units, worst=False, cautious=False, considered=[0, 1]).candidate == 1
    assert choose(scores[[0, 2]], units, worst=False, cautious=True).candidate == 0
    assert choose(scores[[0, 0]], units, worst=False, cautious=True).candidate == 0
    np.testing.assert_allclose(choose(scores, units, worst=False, cautious=True).scores, [0.5, 0.6, 2.2 / 3])


def test_a_cautious_choice_of_the_worst_has_to_exceed_its_standard_error() -> None:
    units = np.repeat([0, 1, 2], 200)
    plain = (np.random.default_rng(0).random(600) < 0.7).astype(float)
    wrong = np.flatnonzero(plain == 0)
    slightly, clearly = plain.copy(), plain.copy()
    slightly[wrong[:4]], slightly[np.flatnonzero(plain)[:3]] = 1, 0
    clearly[wrong[::2]] = 1
    assert choose(np.stack([plain, slightly]), units, worst=True, cautious=True).candidate == 0
    assert choose(np.stack([plain, slightly, clearly]), units, worst=True, cautious=True).candidate == 2


def test_splits_cover_every_row_once() -> None:
    strata = np.array([0] * 20 + [1] * 3 + [2])
    splits = stratified_folds(strata, 5, np.random.RandomState(0))
    tested = [test for train, test in splits if not set(train) & set(test)]
    assert sorted(np.concatenate(tested)) == list(range(24))
    assert all((strata[test] == 0).sum() == 4 for test in tested)


@pytest.mark.parametrize(("domains", "total"), [(3, 6), (2, 12)])
def test_callback_counts_the_splits(domains: int, total: int) -> None:
    problem = make_problem(2, domains=domains)
    calls: list[tuple[int, int]] = []
    search = MomentAlignedClassifierCV((0,), (0,), (1e-2,), callback=lambda done, total: calls.append((done, total)))
    search.fit(problem.features, problem.targets, domains=problem.domains)
    assert calls == [(done, total) for done in range(1, total + 1)]


def test_bad_parameters() -> None:
    problem = make_problem(2)
    for parameters, message in [
        ({"selection": "target"}, "'selection' should be one of"),
        ({"rule": "worst"}, "'rule' should be one of"),
        ({"scoring": "auc"}, "'scoring' should be one of"),
        ({"folds": 1}, "'folds' should be at least 2"),
        ({"l2s": ()}, "'l2s' should hold at least one value"),
        ({"gradient_weights": (-1.0,)}, "'gradient_weights' should be finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            MomentAlignedClassifierCV(**parameters).fit(problem.features, problem.targets, domains=problem.domains)
