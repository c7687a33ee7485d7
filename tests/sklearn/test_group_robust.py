import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from momentalign.linear import split_groups, stratified_folds, subsample_groups
from momentalign.sklearn import GroupRobustClassifier, MomentAlignedClassifier
from tests.sklearn.test_dfr import birds

METHODS = ("balanced", "subsampled", "groupdro", "dfr", "afr", "jtt", "cma")


def sizes(groups: np.ndarray) -> np.ndarray:
    """Size of each row's group."""
    _, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    return counts[codes]


def assert_same(ours: GroupRobustClassifier, plain: LogisticRegression, atol: float = 1e-5) -> None:
    np.testing.assert_allclose(ours.coef_, plain.coef_, atol=atol)
    np.testing.assert_allclose(ours.intercept_, plain.intercept_, atol=10 * atol)


@pytest.mark.parametrize("classes", [2, 3])
def test_balanced_is_logistic_regression_with_weights(classes: int) -> None:
    X, y, groups, _ = birds(classes=classes)
    ours = GroupRobustClassifier("balanced", tol=1e-8).fit(X, y, groups=groups)
    weights = 300 / len(set(groups)) / sizes(groups)
    assert_same(ours, LogisticRegression(tol=1e-10, max_iter=2000).fit(X, y, sample_weight=weights))
    assert ours.groups_[0] == "bird 0, place 0"
    assert ours.group_sizes_.sum() == 300


def test_subsampled_is_the_mean_of_logistic_regressions() -> None:
    X, y, groups, _ = birds()
    ours = GroupRobustClassifier("subsampled", draws=3, tol=1e-8, random_state=4).fit(X, y, groups=groups)
    random, codes = np.random.RandomState(4), np.unique(groups, return_inverse=True)[1]
    draws = [subsample_groups(codes, random) for _ in range(3)]
    fits = [LogisticRegression(tol=1e-10, max_iter=2000).fit(X[rows], y[rows]) for rows in draws]
    np.testing.assert_allclose(ours.coef_, np.mean([fit.coef_ for fit in fits], axis=0), atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, np.mean([fit.intercept_ for fit in fits], axis=0), atol=1e-4)


def test_groupdro_minimises_the_largest_loss() -> None:
    X, y, groups, _ = birds()
    X = StandardScaler().fit_transform(X)
    ours = GroupRobustClassifier("groupdro", l2=0.01, tol=1e-6).fit(X, y, groups=groups)
    members, signs = [groups == group for group in np.unique(groups)], 2 * y - 1

    def losses(head: np.ndarray) -> np.ndarray:
        each = np.logaddexp(0, -signs * (X @ head[:4] + head[4]))
        return np.array([each[rows].mean() for rows in members])

    # The smallest t that no group's loss exceeds.
    plain = minimize(
        lambda point: point[5] + 0.005 * np.square(point[:4]).sum(),
        np.append(np.zeros(5), 1.0),
        constraints={"type": "ineq", "fun": lambda point: point[5] - losses(point[:5])},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    np.testing.assert_allclose(ours.coef_[0], plain.x[:4], atol=2e-3)
    assert losses(np.append(ours.coef_, ours.intercept_)).max() == pytest.approx(plain.x[5], abs=1e-4)
    assert ours.group_weights_.sum() == pytest.approx(1)


def plain_afr(X: np.ndarray, y: np.ndarray, held: np.ndarray, gamma: float, l2: float) -> np.ndarray:
    """Coefficients and intercept of AFR for two classes, by its definition."""
    plain = LogisticRegression(tol=1e-10).fit(X[~held], y[~held])
    start, signs = np.append(plain.coef_, plain.intercept_), 2 * y[held] - 1
    p = plain.predict_proba(X[held])[np.arange(held.sum()), y[held]]
    weights = np.exp(-gamma * p) / np.bincount(y[held])[y[held]]

    def objective(head: np.ndarray) -> float:
        each = np.logaddexp(0, -signs * (X[held] @ head[:-1] + head[-1]))
        return float(weights @ each / weights.sum() + 0.5 * l2 * np.square(head - start).sum())

    return minimize(objective, start, options={"gtol": 1e-8}).x


def plain_jtt(X: np.ndarray, y: np.ndarray, factor: float, upweight: float) -> LogisticRegression:
    """Two logistic regressions."""
    first = LogisticRegression(C=1 / factor, tol=1e-10, max_iter=2000).fit(X, y)
    weights = np.where(first.predict(X) == y, 1.0, upweight)
    return LogisticRegression(C=len(y) / weights.sum(), tol=1e-10, max_iter=2000).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("given", [True, False])
def test_afr_is_its_definition(given: bool) -> None:
    X, y, _, _ = birds()
    X = StandardScaler().fit_transform(X)
    held = np.arange(300) % 3 == 0 if given else split_groups(y, 0.2, np.random.RandomState(0))
    ours = GroupRobustClassifier("afr", gammas=[3.0], afr_l2s=[0.05], tol=1e-9)
    ours.fit(X, y, validation=held if given else None)
    np.testing.assert_allclose(np.append(ours.coef_, ours.intercept_), plain_afr(X, y, held, 3.0, 0.05), atol=1e-5)
    np.testing.assert_array_equal(ours.validation_, held)
    assert len(ours.groups_) == ours.scores_.size == 0


def scored_rows(selection: str, held: np.ndarray | None) -> np.ndarray:
    """Rows that decide."""
    if held is None:
        return np.arange(300)
    return np.flatnonzero(~held if selection == "train_groups" else held)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("selection", ["worst_group", "worst_class", "train_groups"])
def test_afr_chooses_on_rows_that_it_was_not_fitted_on(selection: str, masked: bool) -> None:
    X, y, groups, _ = birds()
    X = StandardScaler().fit_transform(X)
    random = np.random.RandomState(0)
    mask = np.arange(300) % 3 == 0 if masked else None
    held = split_groups(y, 0.2, random) if mask is None else mask
    rows = scored_rows(selection, mask)
    units = (y if selection == "worst_class" else np.unique(groups, return_inverse=True)[1])[rows]
    right = {pair: np.zeros(len(rows), dtype=bool) for pair in [(0.0, 0.1), (0.0, 0.01), (4.0, 0.1), (4.0, 0.01)]}
    strata = np.unique(np.column_stack([units, y[rows]]), axis=0, return_inverse=True)[1].ravel()
    for _, test in stratified_folds(strata, 5, random):
        left = np.setdiff1d(np.arange(300), rows[test])
        for pair, hits in right.items():
            head = plain_afr(X[left], y[left], held[left], *pair)
            hits[test] = (X[rows[test]] @ head[:-1] + head[-1] > 0) == y[rows[test]]
    worst = [min(hits[units == unit].mean() for unit in set(units)) for hits in right.values()]
    ours = GroupRobustClassifier("afr", gammas=[0.0, 4.0], afr_l2s=[0.1, 0.01], selection=selection, tol=1e-8)
    ours.fit(X, y, groups=groups, validation=mask)
    np.testing.assert_allclose(ours.scores_.ravel(), worst)
    assert (ours.gamma_, ours.afr_l2_) == list(right)[int(np.argmax(worst))]


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("selection", ["worst_group", "worst_class", "train_groups"])
def test_jtt_is_two_logistic_regressions_and_a_choice(selection: str, masked: bool) -> None:
    X, y, groups, _ = birds()
    random = np.random.RandomState(0)
    mask = np.arange(300) % 3 == 0 if masked else None
    fitted = np.arange(300) if mask is None else np.flatnonzero(~mask)
    rows = scored_rows(selection, mask)
    units = (y if selection == "worst_class" else np.unique(groups, return_inverse=True)[1])[rows]
    strata = np.unique(np.column_stack([units, y[rows]]), axis=0, return_inverse=True)[1].ravel()
    parts = [np.arange(len(rows))]
    if set(rows) & set(fitted):
        parts = [test for _, test in stratified_folds(strata, 5, random)]
    right = {pair: np.zeros(len(rows), dtype=bool) for pair in [(1.0, 2.0), (1.0, 20.0), (1000.0, 2.0), (1000.0, 20.0)]}
    for test in parts:
        left = np.setdiff1d(fitted, rows[test])
        for pair, hits in right.items():
            hits[test] = plain_jtt(X[left], y[left], *pair).predict(X[rows[test]]) == y[rows[test]]
    worst = [min(hits[units == unit].mean() for unit in set(units)) for hits in right.values()]
    settings = {"first_l2_factors": [1.0, 1000.0], "upweights": [2.0, 20.0], "selection": selection}
    ours = GroupRobustClassifier("jtt", **settings, tol=1e-8).fit(X, y, groups=groups, validation=mask)
    np.testing.assert_allclose(ours.scores_.ravel(), worst)
    chosen = list(right)[int(np.argmax(worst))]
    assert (ours.first_l2_factor_, ours.upweight_) == chosen
    assert_same(ours, plain_jtt(X[fitted], y[fitted], *chosen))


def test_cma_is_alignment_of_rows_repeated_until_groups_are_alike() -> None:
    X, y, groups, place = birds(classes=2)
    # Groups of 60, 6, 6 and 60 rows: the small ones ten times each.
    keep = np.concatenate([np.flatnonzero(groups == g)[: 60 if g[5] == g[-1] else 6] for g in np.unique(groups)])
    repeats = np.where(sizes(groups[keep]) == 6, 10, 1)
    rows = np.repeat(keep, repeats)
    weights = {"gradient_weight": 10.0, "hessian_weight": 1.0, "l2": 0.01, "tol": 1e-8}
    ours = GroupRobustClassifier("cma", **weights).fit(X[keep], y[keep], groups=groups[keep], domains=place[keep])
    plain = MomentAlignedClassifier(**weights).fit(X[rows], y[rows], domains=place[rows])
    assert_same(ours, plain)
    pairs = GroupRobustClassifier("cma", **weights).fit(X[keep], y[keep], domains=place[keep])
    assert pairs.groups_.tolist() == ["0|0", "0|1", "1|0", "1|1"]
    assert_same(pairs, plain)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_helps_the_worst_group(method: str) -> None:
    X, y, groups, place = birds(1500)
    test, answers, units, _ = birds(3000, seed=1)
    scaler = StandardScaler().fit(X)
    X, test = scaler.transform(X), scaler.transform(test)

    def worst(predicted: np.ndarray) -> float:
        return min((predicted == answers)[units == unit].mean() for unit in set(units))

    ours = GroupRobustClassifier(method).fit(X, y, groups=groups, domains=place)
    assert worst(ours.predict(test)) > worst(LogisticRegression().fit(X, y).predict(test)) + 0.05


@pytest.mark.parametrize("method", METHODS)
def test_bad_groups_are_named(method: str) -> None:
    X, y, groups, place = birds()
    clf = GroupRobustClassifier(method)
    with pytest.raises(
        ValueError, match=r"'groups' should hold a label for every row.*, but 1 are missing, first in row 0\. "
    ):
        clf.fit(X, y, groups=[None, *groups[1:]])
    with pytest.raises(ValueError, match="'domains' should hold a label for every row, but 1 are missing"):
        clf.fit(X, y, groups=groups, domains=np.append(np.nan, place[1:]))
    with pytest.raises(ValueError, match=r"'bird 0, place 0' and 'bird 0, place 0 ' differ by blanks only\. Strip"):
        clf.fit(X, y, groups=["bird 0, place 0 ", *groups[1:]])
    with pytest.raises(ValueError, match="at least two classes, but holds one class"):
        clf.fit(X, np.zeros(300), groups=groups)
    with pytest.raises(ValueError, match=r"'groups' should have one entry per row of 'X' \(300\)"):
        clf.fit(X, y, groups=groups[1:])


def test_a_group_of_one_row() -> None:
    X, y, groups, place = birds()
    groups = np.append(groups[:-1], "a lonely bird")
    for method in ("balanced", "groupdro", "cma"):
        with pytest.warns(UserWarning, match=r"Groups of one row count as much as any other: 'a lonely bird'\. Merge"):
            GroupRobustClassifier(method).fit(X, y, groups=groups, domains=place)
    with pytest.raises(
        ValueError, match=r"at least 2 training rows, but 'a lonely bird' has one row\. Use method='balanced', or merge"
    ):
        GroupRobustClassifier("subsampled").fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="at least 2 held-out rows, but 'a lonely bird' has one row"):
        GroupRobustClassifier("dfr").fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="method 'afr' needs training rows of every class, but class 0 has none"):
        GroupRobustClassifier("afr").fit(X, y, validation=y == 0)


def test_what_is_missing_is_said() -> None:
    X, y, groups, _ = birds()
    with pytest.warns(UserWarning, match=r"takes the classes as groups\. Pass the group of each row: fit\(X, y, "):
        classes = GroupRobustClassifier().fit(X, y)
    assert classes.groups_.tolist() == [0, 1]
    with pytest.warns(UserWarning, match="Without 'domains' method 'cma' has nothing to align"):
        cma = GroupRobustClassifier("cma").fit(X, y, groups=groups)
    np.testing.assert_array_equal(cma.coef_, GroupRobustClassifier("balanced").fit(X, y, groups=groups).coef_)
    with pytest.raises(TypeError, match="method 'subsampled' holds no rows out, but 'validation' was given"):
        GroupRobustClassifier().fit(X, y, validation=y == 0)
    with pytest.raises(ValueError, match=r"'method' should be one of 'balanced', .* Did you mean 'groupdro'"):
        GroupRobustClassifier("groupdr").fit(X, y)
    with pytest.raises(ValueError, match="'gammas' should hold at least one number"):
        GroupRobustClassifier("afr", gammas=[]).fit(X, y)


@pytest.mark.parametrize("method", ["afr", "jtt", "dfr"])
def test_groups_may_be_missing_where_they_are_not_needed(method: str) -> None:
    X, y, groups, _ = birds()
    held = np.arange(300) % 3 == 0
    known = np.where(held, None, groups)
    clf = GroupRobustClassifier(method, refit_on="training", refits=2)
    with pytest.raises(
        ValueError,
        match=r"row whose worst group decides, but 100 are missing, first in row 0\. Use selection='train_groups'",
    ):
        clf.fit(X, y, groups=known, validation=held)
    for selection in ("worst_class", "train_groups"):
        fitted = clf.set_params(selection=selection).fit(X, y, groups=known, validation=held)
        assert fitted.group_sizes_.sum() == 200
        np.testing.assert_array_equal(fitted.coef_, clf.fit(X, y, groups=groups, validation=held).coef_)
    with pytest.raises(ValueError, match="needs groups of training rows, but all of them are missing"):
        GroupRobustClassifier("afr", selection="train_groups").fit(
            X, y, groups=np.where(held, groups, None), validation=held
        )
    with pytest.raises(ValueError, match=r"that is refitted on, but 100 are missing.* or use refit_on='training'"):
        GroupRobustClassifier("dfr").fit(X, y, groups=known, validation=held)
    with pytest.raises(ValueError, match=r"selection='worst_group' needs the groups .* use selection='worst_class'"):
        GroupRobustClassifier("jtt", selection="worst_group").fit(X, y)


def test_groups_and_domains_of_one_class() -> None:
    X, y, _, place = birds()
    # Attributes alone as groups: the smallest has a single class.
    lonely = np.where(np.arange(300) < 3, "rare", place.astype(str))
    y = np.where(lonely == "rare", 0, y)
    with pytest.warns(UserWarning, match=r"1 of 3 'domains' hold rows of one class only\. Alignment then compares"):
        GroupRobustClassifier("cma").fit(X, y, domains=lonely)
    with pytest.raises(ValueError, match="A group-balanced subsample should hold all 3 classes, but one of 4 rows"):
        GroupRobustClassifier("subsampled").fit(X[:6], [0, 0, 0, 1, 2, 2], groups=list("aaaabb"))


@pytest.mark.parametrize("method", METHODS)
def test_weights_count_rows_within_their_group(method: str) -> None:
    X, y, groups, place = birds()
    X = StandardScaler().fit_transform(X)
    weights = np.random.default_rng(0).integers(1, 4, 300).astype(float)
    clf = GroupRobustClassifier(method, upweights=[5.0], first_l2_factors=[1.0], tol=1e-5, l2=0.01)
    plain = clf.fit(X, y, groups=groups, domains=place).coef_
    weighted = clf.fit(X, y, groups=groups, domains=place, sample_weight=weights).coef_
    assert np.abs(weighted - plain).max() > 1e-3
    np.testing.assert_allclose(clf.fit(X, y, groups, domains=place, sample_weight=np.ones(300)).coef_, plain, atol=1e-4)
    if method in ("balanced", "groupdro", "jtt", "cma"):  # the others draw rows
        rows = np.repeat(np.arange(300), weights.astype(int))
        repeated = clf.fit(X[rows], y[rows], groups=groups[rows], domains=place[rows])
        np.testing.assert_allclose(weighted, repeated.coef_, atol=2e-3)
    with pytest.raises(ValueError, match=r"a 'sample_weight' above 0, but 'bird 0, place 0' has none"):
        clf.fit(X, y, groups=groups, domains=place, sample_weight=np.where(groups == "bird 0, place 0", 0, 1))


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_weight_zero_count_as_left_out(method: str) -> None:
    X, y, groups, place = birds()
    X = StandardScaler().fit_transform(X)
    kept = np.arange(300) % 3 > 0
    X[~kept] += 10.0  # they would move every fit, and every choice
    weights = np.where(kept, 2.0, 0.0)
    options = {"refits": 2, "draws": 2, "gammas": (0.0, 4.0), "afr_l2s": (0.1,), "upweights": (1.0, 20.0)}
    weighted, alone = (GroupRobustClassifier(method, first_l2_factors=(1.0,), **options) for _ in range(2))
    weighted.fit(X, y, groups, domains=place, sample_weight=weights)
    alone.fit(X[kept], y[kept], groups[kept], domains=place[kept], sample_weight=weights[kept])
    np.testing.assert_array_equal(weighted.coef_, alone.coef_)
    np.testing.assert_array_equal(weighted.group_sizes_, alone.group_sizes_)
    if method in ("dfr", "afr"):
        np.testing.assert_array_equal(weighted.validation_[kept], alone.validation_)
        assert not weighted.validation_[~kept].any()


def test_rows_of_weight_zero_in_messages() -> None:
    X, y, groups, _ = birds()
    weights = np.where(np.arange(300) < 5, 0.0, 1.0)
    known = np.where(np.arange(300) == 7, None, groups)
    with pytest.raises(ValueError, match="1 are missing, first in row 7"):
        GroupRobustClassifier("dfr").fit(X, y, known, sample_weight=weights)
    with pytest.raises(ValueError, match="True for rows with a 'sample_weight' above 0, but is for none of them"):
        GroupRobustClassifier("dfr").fit(X, y, groups, validation=weights == 0, sample_weight=weights)


@config_context(enable_metadata_routing=True)
def test_groups_are_routed() -> None:
    X, y, groups, place = birds()
    model = GroupRobustClassifier().set_fit_request(groups=True, domains=True)
    params = {"groups": groups, "domains": place}
    assert cross_val_score(make_pipeline(StandardScaler(), model), X, y, params=params).shape == (5,)
    search = GridSearchCV(model, {"method": ["balanced", "cma"]}).fit(X, y, **params)
    assert len(search.best_estimator_.groups_) == 4
