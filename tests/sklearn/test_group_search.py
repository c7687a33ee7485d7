import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from momentalign.linear import stratified_folds
from momentalign.sklearn import GroupRobustClassifier, MomentAlignedClassifierCV
from tests.sklearn.test_dfr import birds

METHODS = ("balanced", "subsampled", "groupdro", "dfr", "cma")


def scaled(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    X, y, groups, place = birds(n, seed=seed)
    return StandardScaler().fit_transform(X), y, groups, place


def worst(right: np.ndarray, units: np.ndarray) -> float:
    return min(right[units == unit].mean() for unit in np.unique(units))


def test_remedies_are_candidates_and_one_is_chosen_on_evidence() -> None:
    X, y, groups, place = scaled(600)
    search = MomentAlignedClassifierCV(selection="worst_group", l2_factors=())
    fitted = search.fit(X, np.array(["no", "yes"])[y], domains=place, groups=groups)
    assert [setting.get("method") for setting in fitted.candidates_] == [None, None, None, *METHODS]
    assert fitted.method_ in METHODS
    assert fitted.outcomes_.count("chosen") == 1
    assert f"Changed from LogisticRegression's defaults: method {fitted.method_} gained " in fitted.reason_
    assert " points, in accuracy of the worst group on 5 held-out folds" in fitted.reason_
    test, answers, units, _ = scaled(3000, seed=1)
    plain = LogisticRegression().fit(X, y).predict(test) == answers
    ours = fitted.predict(test) == np.array(["no", "yes"])[answers]
    assert worst(ours, units) > worst(plain, units) + 0.05
    np.testing.assert_array_equal(fitted.coef_, fitted.remedy_.coef_)


@pytest.mark.parametrize("selection", ["worst_group", "worst_class", "train_groups"])
def test_scores_are_those_of_fits_without_the_fold(selection: str) -> None:
    X, y, groups, _ = scaled()
    known = np.arange(300) % 4 != 3 if selection == "train_groups" else np.ones(300, dtype=bool)
    given = np.where(known, groups, None)
    methods = ("balanced", "subsampled", *(["afr"] if selection == "train_groups" else []))
    search = MomentAlignedClassifierCV((), (), (), selection=selection, methods=methods)
    fitted = search.fit(X, y, groups=given)
    assert len(fitted.domains_) == 0
    codes = np.unique(groups, return_inverse=True)[1]
    decide, units = np.flatnonzero(known), y if selection == "worst_class" else codes
    strata = np.unique(np.column_stack([codes, y])[decide], axis=0, return_inverse=True)[1].ravel()
    right = np.zeros((1 + len(methods), 300), dtype=bool)
    for _, part in stratified_folds(strata, 5, np.random.RandomState(0)):
        test = decide[part]
        train = np.setdiff1d(np.arange(300), test)
        right[0, test] = LogisticRegression(tol=1e-8).fit(X[train], y[train]).predict(X[test]) == y[test]
        for row, method in enumerate(methods, start=1):
            rows = train if method == "afr" else np.intersect1d(train, decide)
            model = GroupRobustClassifier(method, selection=selection).fit(X[rows], y[rows], groups=given[rows])
            right[row, test] = model.predict(X[test]) == y[test]
    np.testing.assert_allclose(fitted.scores_, [worst(row[decide], units[decide]) for row in right])
    kind = "class" if selection == "worst_class" else "group"
    assert f"accuracy of the worst {kind}" in fitted.reason_


def test_labels_are_enough_for_the_worst_class() -> None:
    X, y, _, _ = scaled()
    few = np.flatnonzero((y == 0) | (np.arange(300) % 10 == 1))
    search = MomentAlignedClassifierCV((), (), (), selection="worst_class", methods=("balanced", "cma"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = search.fit(X[few], y[few])
    assert fitted.method_ == "balanced"  # there is nothing to align
    assert len(fitted.candidates_) == 2
    plain = LogisticRegression(class_weight="balanced", tol=1e-8).fit(X[few], y[few])
    np.testing.assert_allclose(fitted.coef_, plain.coef_, atol=1e-2)


def test_remedies_without_groups_join_for_the_worst_class() -> None:
    X, y, _, place = scaled(90)
    search = MomentAlignedClassifierCV((), (), (), selection="worst_class", folds=2).fit(X, y, domains=place)
    assert [one["method"] for one in search.candidates_ if "method" in one] == [*METHODS[:4], "afr", "jtt"]


def test_another_l2_for_a_remedy() -> None:
    X, y, groups, _ = scaled()
    search = MomentAlignedClassifierCV((), (), (10.0,), selection="worst_group", methods=("subsampled",), rule="best")
    search.fit(X, y, groups=groups)
    setting, sizes = search.candidates_[-1], np.unique(groups, return_counts=True)[1]
    model = search._remedy(search._validate(X, y, None, None, groups), setting | {"l2_factor": 10.0})
    plain = GroupRobustClassifier("subsampled", l2=10 / (len(sizes) * sizes.min())).fit(X, y, groups=groups)
    np.testing.assert_allclose(model.coef_, plain.coef_)


def test_a_remedy_that_cannot_be_fitted_is_no_candidate() -> None:
    X, y, groups, _ = scaled()
    groups = np.append(groups[:-2], ["a pair", "a pair"])
    search = MomentAlignedClassifierCV((), (), (), selection="worst_group", methods=("subsampled", "balanced"))
    fitted = search.fit(X, y, groups=groups)
    assert fitted.outcomes_[1] == "cannot be fitted without some fold: a group has too few rows"
    assert np.isnan(fitted.scores_).tolist() == [False, True, False]


def test_missing_groups_are_named() -> None:
    X, y, groups, _ = scaled()
    message = (
        r"every row, but 2 are missing, first in row 0\. Use selection='train_groups', .* or selection='worst_class'"
    )
    with pytest.raises(ValueError, match=message):
        MomentAlignedClassifierCV(selection="worst_group").fit(X, y, groups=[None, np.nan, *groups[2:]])
    with pytest.raises(ValueError, match="all are missing"):
        MomentAlignedClassifierCV(selection="train_groups").fit(X, y, groups=[None] * 300)
    with pytest.warns(UserWarning, match="Without 'domains'"):
        alone = MomentAlignedClassifierCV(selection="train_groups").fit(X, y)
    assert alone.reason_ == "LogisticRegression's defaults: no domains to choose by, and at least two are needed."


def test_every_fold_has_its_share_of_each_group_domain_and_class() -> None:
    cells = np.random.default_rng(0).permutation(np.repeat(np.arange(8), 10))
    groups, domains, y = cells // 4, cells // 2 % 2, cells % 2
    search = MomentAlignedClassifierCV(selection="worst_group")
    splits = search._splits(search._validate(np.zeros((80, 1)), y, domains, None, groups))
    assert len(splits) == 5
    for train, test in splits:
        assert np.bincount(cells[test]).tolist() == [2] * 8
        assert sorted([*train, *test]) == list(range(80))
