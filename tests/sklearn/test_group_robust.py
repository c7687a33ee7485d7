import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from momentalign.linear import split_groups, subsample_groups
from momentalign.sklearn import DFRClassifier, GroupRobustClassifier, MomentAlignedClassifier

METHODS = ("balanced", "subsampled", "groupdro", "dfr", "cma")
CS = (1.0, 0.1, 0.01)
# scikit-learn 1.8 replaced the penalty's name by a ratio.
L1 = {"l1_ratio": 1.0} if LogisticRegression().penalty == "deprecated" else {"penalty": "l1"}


RARE = "bird 0, place 1"


def birds(n: int = 300, classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows whose second column follows a place that nine rows of ten in a class share, and groups with blanks."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    place = np.where(rng.random(n) < 0.8, y, rng.permutation(y))
    X = 5 + 3 * rng.normal(size=(n, 4))
    X[:, 0] += 6 * y
    X[:, 1] += 9 * place
    return X, y, np.array([f"bird {a}, place {b}" for a, b in zip(y, place, strict=True)]), place


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


def test_cma_aligns_across_domains_with_groups_alike() -> None:
    X, y, groups, place = birds()
    ours = GroupRobustClassifier("cma", gradient_weight=3.0, hessian_weight=0.5, tol=1e-8)
    ours.fit(X, y, groups=groups, domains=place)
    weights = 1 / sizes(np.array([f"{a} {b}" for a, b in zip(groups, place, strict=True)]))
    plain = MomentAlignedClassifier(3.0, 0.5, l2=1 / 300, tol=1e-8).fit(X, y, domains=place, sample_weight=weights)
    np.testing.assert_allclose(ours.coef_, plain.coef_, rtol=1e-4)
    made = GroupRobustClassifier("cma", gradient_weight=3.0, hessian_weight=0.5, tol=1e-8).fit(X, y, domains=place)
    np.testing.assert_allclose(made.coef_, ours.coef_, rtol=1e-6)
    assert made.groups_[0] == "0|0"


@pytest.mark.parametrize("method", METHODS)
def test_every_method_helps_the_worst_group(method: str) -> None:
    X, y, groups, place = birds(600)
    test, answers, units, _ = birds(3000, seed=1)

    def worst(model: object) -> float:
        right = model.predict(test) == answers
        return min(right[units == unit].mean() for unit in np.unique(units))

    scaled = make_pipeline(StandardScaler(), GroupRobustClassifier(method, gradient_weight=10.0))
    given = {"grouprobustclassifier__groups": groups, "grouprobustclassifier__domains": place}
    plain = make_pipeline(StandardScaler(), LogisticRegression())
    assert worst(scaled.fit(X, y, **given)) > worst(plain.fit(X, y)) + 0.03


HELD_OUT = {"method": "dfr"}
TRAINING = {"method": "dfr", "refit_on": "training"}


@pytest.mark.parametrize(
    ("options", "change", "error", "message"),
    [
        ({}, {"groups": lambda g: [None, *g[1:]]}, ValueError, "'groups'.* 1 are missing, first in row 0"),
        ({}, {"groups": lambda g: ["bird 0, place 0 ", *g[1:]]}, ValueError, "differ by blanks only"),
        ({}, {"groups": lambda g: g[1:]}, ValueError, r"'groups' .* row of 'X' \(300\)"),
        ({}, {"groups": lambda g: [*g[1:], "lonely"]}, ValueError, "at least 2 training rows, but 'lonely'"),
        ({}, {"validation": lambda g: g == g[0]}, TypeError, "'validation'"),
        ({"method": "balanced"}, {"y": lambda g: np.zeros(300)}, ValueError, "at least two classes"),
        ({"method": "groupdr"}, {}, ValueError, "Did you mean 'groupdro'"),
        (
            HELD_OUT,
            {"groups": lambda g: [*g[1:], "lonely"]},
            ValueError,
            "at least 2 held-out rows, but 'lonely' has 1",
        ),
        (HELD_OUT, {"validation": lambda g: g != RARE}, ValueError, f"at least 2 held-out rows, but '{RARE}' has 0"),
        (HELD_OUT, {"validation": lambda g: np.zeros(300, bool)}, ValueError, "at least 2 held-out rows"),
        (HELD_OUT, {"validation": lambda g: np.arange(300)}, TypeError, "'validation' should be a mask .* int64"),
        (HELD_OUT, {"validation": lambda g: np.ones(3, bool)}, ValueError, r"'validation' .* row of 'X' \(300\)"),
        (HELD_OUT, {"y": lambda g: np.append(g[:-1], "third")}, ValueError, "should hold all 5 classes"),
        (TRAINING, {"validation": lambda g: g == RARE}, ValueError, f"at least 2 training rows, but '{RARE}' has 0"),
        (TRAINING, {}, ValueError, r"needs rows that are not held out, but all are\. Pass validation=0\.5"),
        ({"validation": 1}, {}, ValueError, "'validation' should lie between 0 and 1, but is 1"),
        ({"Cs": []}, {}, ValueError, "'Cs'"),
        ({"Cs": [0]}, {}, ValueError, "'Cs'"),
        ({"l2": -1.0}, {}, ValueError, "'l2'"),
        ({"draws": 0}, {}, ValueError, "'draws'"),
        ({"refits": 0}, {}, ValueError, "'refits'"),
    ],
)
def test_bad_input(options: dict, change: dict, error: type[Exception], message: str) -> None:
    X, y, groups, _ = birds()
    arguments = {"y": y, "groups": groups} | {name: make(groups) for name, make in change.items()}
    with pytest.raises(error, match=message):
        GroupRobustClassifier(**options).fit(X, **arguments)


def test_what_weakens_a_fit_is_a_warning() -> None:
    X, y, groups, place = birds()
    with pytest.warns(UserWarning, match="takes the classes as groups"):
        assert GroupRobustClassifier().fit(X, y).groups_.tolist() == [0, 1]
    with pytest.warns(UserWarning, match="Without 'domains' method 'cma'"):
        cma = GroupRobustClassifier("cma").fit(X, y, groups=groups)
    np.testing.assert_array_equal(cma.coef_, GroupRobustClassifier("balanced").fit(X, y, groups=groups).coef_)
    for method in ("balanced", "groupdro", "cma"):
        with pytest.warns(UserWarning, match="Groups of one row count as much as any other: 'lonely'"):
            GroupRobustClassifier(method).fit(X, y, groups=[*groups[:-1], "lonely"], domains=place)
    # Attributes alone as groups: the smallest has a single class.
    lonely = np.where(np.arange(300) < 3, "rare", place.astype(str))
    with pytest.warns(UserWarning, match="1 of 3 'domains' hold rows of one class only"):
        GroupRobustClassifier("cma").fit(X, np.where(lonely == "rare", 0, y), domains=lonely)
    with pytest.raises(ValueError, match="should hold all 3 classes"):
        GroupRobustClassifier("subsampled").fit(X[:6], [0, 0, 0, 1, 2, 2], groups=list("aaaabb"))


@pytest.mark.parametrize("method", METHODS)
def test_weights_count_rows_within_their_group(method: str) -> None:
    X, y, groups, place = birds()
    X = StandardScaler().fit_transform(X)
    weights = np.random.default_rng(0).integers(1, 4, 300).astype(float)
    clf = GroupRobustClassifier(method, tol=1e-5, l2=0.01)
    plain = clf.fit(X, y, groups=groups, domains=place).coef_
    weighted = clf.fit(X, y, groups=groups, domains=place, sample_weight=weights).coef_
    assert np.abs(weighted - plain).max() > 1e-3
    np.testing.assert_allclose(clf.fit(X, y, groups, domains=place, sample_weight=np.ones(300)).coef_, plain, atol=1e-4)
    if method in ("balanced", "groupdro", "cma"):  # the others draw rows
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
    weighted, alone = (GroupRobustClassifier(method, refits=2, draws=2) for _ in range(2))
    weighted.fit(X, y, groups, domains=place, sample_weight=weights)
    alone.fit(X[kept], y[kept], groups[kept], domains=place[kept], sample_weight=weights[kept])
    np.testing.assert_array_equal(weighted.coef_, alone.coef_)
    np.testing.assert_array_equal(weighted.group_sizes_, alone.group_sizes_)
    if method == "dfr":
        np.testing.assert_array_equal(weighted.validation_[kept], alone.validation_)
        assert not weighted.validation_[~kept].any()


def plain_dfr(
    X: np.ndarray, y: np.ndarray, groups: np.ndarray, held: np.ndarray, training: bool, refits: int
) -> tuple[float, list[float], np.ndarray, np.ndarray]:
    """DFR of two classes, step by step."""
    random = np.random.RandomState(0)
    codes = np.unique(groups, return_inverse=True)[1]
    scaler = StandardScaler().fit(X[~held] if not held.all() else X)
    Z = scaler.transform(X)
    tune, score = np.flatnonzero(~held), np.flatnonzero(held)
    if not training:
        half = split_groups(codes[held], 0.5, random)
        tune, score = score[half], score[~half]
    source = np.flatnonzero(~held if training else held)

    def fit(rows: np.ndarray, C: float) -> LogisticRegression:
        seed = random.randint(2**31 - 1)
        return LogisticRegression(**L1, C=C, solver="liblinear", random_state=seed).fit(Z[rows], y[rows])

    drawn, worst = tune[subsample_groups(codes[tune], random)], []
    for C in CS:
        right = fit(drawn, C).predict(Z[score]) == y[score]
        worst.append(min(right[codes[score] == code].mean() for code in set(codes)))
    C = CS[int(np.argmax(worst))]
    models = [fit(source[subsample_groups(codes[source], random)], C) for _ in range(refits)]
    logits = np.mean([model.decision_function(Z) for model in models], axis=0)
    return C, worst, logits, np.mean([model.coef_ for model in models], axis=0) / scaler.scale_


@pytest.mark.parametrize(
    ("refit_on", "masked", "refits"), [("validation", False, 20), ("validation", True, 20), ("training", True, 10)]
)
def test_it_is_the_plain_recipe(refit_on: str, masked: bool, refits: int) -> None:
    X, y, groups, _ = birds()
    held = np.arange(300) % 3 > 0 if masked else np.ones(300, dtype=bool)
    C, worst, logits, coef = plain_dfr(X, y, groups, held, refit_on == "training", refits)
    dfr = DFRClassifier(CS, refit_on=refit_on).fit(X, y, groups=groups, validation=held if masked else None)
    assert dfr.C_ == C
    np.testing.assert_allclose(dfr.scores_, worst)
    np.testing.assert_allclose(dfr.coef_, coef, atol=1e-10)
    np.testing.assert_allclose(dfr.decision_function(X), logits, atol=1e-10)
    robust = GroupRobustClassifier("dfr", Cs=CS, refit_on=refit_on)
    robust.fit(X, y, groups=groups, validation=held if masked else None)
    np.testing.assert_array_equal(robust.coef_, dfr.coef_)
    assert robust.C_ == C


def test_several_classes_and_a_fraction() -> None:
    X, y, groups, _ = birds(900, classes=3)
    dfr = DFRClassifier(CS, validation=0.5, refits=3).fit(X, y, groups=groups)
    assert dfr.coef_.shape == (3, 4)
    assert dfr.validation_.sum() == pytest.approx(450, abs=9)
    assert dfr.score(X, y) > 0.4
    again = DFRClassifier(CS, validation=0.5, refits=3).fit(X, y, groups=groups)
    np.testing.assert_array_equal(dfr.coef_, again.coef_)
    other = DFRClassifier(CS, validation=0.5, refits=3, random_state=1).fit(X, y, groups=groups)
    assert (dfr.coef_ != other.coef_).any()
