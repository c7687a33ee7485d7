import numpy as np
import pytest

from momentalign.sklearn import MomentAlignedClassifier, MomentAlignedClassifierCV
from momentalign.sklearn._selection import choose, domain_splits, fold_splits
from tests.linear.problems import make_problem


def shortcut_sites(strengths: tuple[float, ...], rows: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One feature that lasts, one that helps by another strength at every site."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, len(strengths) * rows)
    strength = np.repeat(strengths, rows)
    sign = 2 * y - 1
    X = np.column_stack([sign + 1.2 * rng.normal(size=len(y)), strength * sign + 0.6 * rng.normal(size=len(y))])
    return X, y, np.repeat([f"site {k}" for k in range(len(strengths))], rows)


def test_it_aligns_where_that_pays() -> None:
    X, y, site = shortcut_sites((2.0, 2.0, 0.0, 0.0))
    fitted = MomentAlignedClassifierCV((0, 1, 10, 100), (0, 10), (1e-2,)).fit(X, y, domains=site)
    assert fitted.aligned_
    assert fitted.gradient_weight_ > 0
    X3, y3, _ = shortcut_sites((-1.0,))
    plain = MomentAlignedClassifier(0, 0).fit(X, y)
    assert fitted.score(X3, y3) > plain.score(X3, y3) + 0.02


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
    assert len(chosen.candidates_) == 2 + 8
    assert chosen.scores_.shape == chosen.standard_errors_.shape == (10,)
    best = chosen.candidates_[chosen.scores_.argmax()]
    assert (chosen.gradient_weight_, chosen.hessian_weight_) == (best["gradient_weight"], best["hessian_weight"])
    assert (chosen.l2_, chosen.balanced_) == (best["l2"], best["balanced"])
    alone = MomentAlignedClassifier(chosen.gradient_weight_, chosen.hessian_weight_, l2=chosen.l2_)
    alone.fit(**rows if chosen.balanced_ else rows | {"domains": None})
    np.testing.assert_allclose(chosen.coef_, alone.coef_)


def test_scores_are_those_of_fits_without_the_domain() -> None:
    X, y, site = shortcut_sites((1.0, 0.5, 0.0), rows=60)
    fitted = MomentAlignedClassifierCV((1,), (0,), (1e-2,)).fit(X, y, domains=site)
    for setting, score in zip(fitted.candidates_, fitted.scores_, strict=True):
        accuracies = []
        for left_out in np.unique(site):
            kept = site != left_out
            model = MomentAlignedClassifier(setting["gradient_weight"], 0, l2=setting["l2"])
            model.fit(X[kept], y[kept], domains=site[kept] if setting["balanced"] else None)
            accuracies.append(model.score(X[~kept], y[~kept]))
        assert score == pytest.approx(np.mean(accuracies))


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


def test_a_gain_has_to_exceed_its_standard_error() -> None:
    units = np.repeat([0, 1, 2], 200)
    plain = (np.random.default_rng(0).random(600) < 0.7).astype(float)
    wrong = np.flatnonzero(plain == 0)
    slightly, clearly = plain.copy(), plain.copy()
    slightly[wrong[:4]], slightly[np.flatnonzero(plain)[:3]] = 1, 0
    clearly[wrong[::2]] = 1
    for worst in (False, True):
        assert choose(np.stack([plain, slightly]), units, worst=worst, cautious=True).candidate == 0
        assert choose(np.stack([plain, slightly, clearly]), units, worst=worst, cautious=True).candidate == 2
    assert choose(np.stack([plain, slightly]), units, worst=False, cautious=False).candidate == 1
    assert choose(np.stack([plain, plain]), units, worst=False, cautious=False).candidate == 0


def test_splits_cover_every_row_once() -> None:
    strata = np.array([0] * 20 + [1] * 3 + [2])
    for splits in (domain_splits(strata), fold_splits(strata, 5, np.random.RandomState(0))):
        tested = [test for train, test in splits if not set(train) & set(test)]
        assert sorted(np.concatenate(tested)) == list(range(24))


def test_bad_parameters() -> None:
    problem = make_problem(2)
    for parameters, message in [
        ({"selection": "target"}, "'selection' should be one of"),
        ({"rule": "worst"}, "'rule' should be one of"),
        ({"folds": 1}, "'folds' should be at least 2"),
        ({"l2s": ()}, "'l2s' should hold at least one value"),
        ({"gradient_weights": (-1.0,)}, "'gradient_weights' should be finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            MomentAlignedClassifierCV(**parameters).fit(problem.features, problem.targets, domains=problem.domains)
