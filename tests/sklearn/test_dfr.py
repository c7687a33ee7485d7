import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from momentalign.linear import split_groups, subsample_groups
from momentalign.sklearn import DFRClassifier, GroupRobustClassifier

CS = (1.0, 0.1, 0.01)
# scikit-learn 1.8 replaced the penalty's name by a ratio.
L1 = {"l1_ratio": 1.0} if LogisticRegression().penalty == "deprecated" else {"penalty": "l1"}


def birds(n: int = 300, classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows whose second column follows a place that nine rows of ten in a class share, and groups with blanks."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    place = np.where(rng.random(n) < 0.8, y, rng.permutation(y))
    X = 5 + 3 * rng.normal(size=(n, 4))
    X[:, 0] += 6 * y
    X[:, 1] += 9 * place
    return X, y, np.array([f"bird {a}, place {b}" for a, b in zip(y, place, strict=True)]), place


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


def test_groups_without_rows_in_a_split_are_named() -> None:
    X, y, groups, _ = birds()
    rare = groups == "bird 0, place 1"
    with pytest.raises(
        ValueError,
        match=r"at least 2 held-out rows, but 'bird 0, place 1' has 0\. Hold more of its rows out, or merge it",
    ):
        DFRClassifier().fit(X, y, groups=groups, validation=~rare)
    one = ~rare
    one[np.flatnonzero(rare)[0]] = True
    with pytest.raises(ValueError, match="'bird 0, place 1' has 1"):
        DFRClassifier().fit(X, y, groups=groups, validation=one)
    with pytest.raises(ValueError, match="at least 2 training rows, but 'bird 0, place 1' has 0"):
        DFRClassifier(refit_on="training").fit(X, y, groups=groups, validation=rare)
    with pytest.raises(ValueError, match=r"needs rows that are not held out, but all are\. Pass validation=0\.5"):
        DFRClassifier(refit_on="training").fit(X, y, groups=groups)


def test_bad_arguments() -> None:
    X, y, groups, place = birds()
    with pytest.raises(TypeError, match="'validation' should be a mask of True and False, but its dtype is int64"):
        DFRClassifier().fit(X, y, groups=groups, validation=np.arange(300))
    with pytest.raises(ValueError, match="at least 2 held-out rows"):
        DFRClassifier().fit(X, y, groups=groups, validation=np.zeros(300, dtype=bool))
    with pytest.raises(ValueError, match=r"'validation' should have one entry per row of 'X' \(300\)"):
        DFRClassifier().fit(X, y, groups=groups, validation=np.ones(3, dtype=bool))
    with pytest.raises(ValueError, match="'validation' should lie between 0 and 1, but is 1"):
        DFRClassifier(validation=1).fit(X, y, groups=groups)
    for bad in ([], [0]):
        with pytest.raises(ValueError, match="'Cs'"):
            DFRClassifier(bad).fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="A group-balanced subsample should hold all 3 classes"):
        DFRClassifier().fit(X, np.append(y[:-1], 2), groups=place)
