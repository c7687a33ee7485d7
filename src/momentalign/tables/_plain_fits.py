"""Scores of a plain model on each domain: left out of training, and with its own rows in training."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, t
from sklearn.base import BaseEstimator, clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from momentalign._types import Array, Integers, ReportProgress
from momentalign.sklearn import MomentAlignedClassifier, MomentAlignedRegressor

LEVEL = 0.95
_MOST_FITS = 60
"""More domains than this are left out several at a time."""
_REMEDY_FITS = 10
"""The same for the remedies, whose fits take longer."""
_FEWEST = 10
"""Domains with fewer rows are shown, but nothing is stated about them."""


@dataclass(frozen=True, eq=False)
class ComparedRows:
    """Rows to compare: features (n, d), class indices or numbers (n,), domain indices (n,), and their names.

    `classes` is None for a quantity.
    """

    features: Array
    targets: NDArray[Any]
    domains: Integers
    names: tuple[str, ...]
    classes: tuple[str, ...] | None

    @property
    def counts(self) -> Integers:
        """Rows of each domain, shape (K,)."""
        counts: Integers = np.bincount(self.domains, minlength=len(self.names))
        return counts

    def large(self) -> list[int]:
        """Indices of the domains with enough rows to test."""
        return np.flatnonzero(self.counts >= _FEWEST).tolist()

    def scores(self, predicted: NDArray[Any]) -> Array:
        """1 for a hit and 0 for a miss; the absolute error of a number. Shape (n,)."""
        if self.classes is not None:
            hits: Array = (predicted == self.targets).astype(np.float64)
            return hits
        errors: Array = np.abs(predicted - self.targets)
        return errors


@dataclass(frozen=True)
class Estimate:
    """A mean over rows or domains with its interval."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.low > 0 or self.high < 0

    def format(self, form: str, scale: float = 1.0, unit: str = "") -> str:
        """The mean and its interval, such as "71% (65 to 77)" for form ".0f", scale 100 and unit "%"."""
        value, low, high = (f"{scale * number:{form}}" for number in (self.value, self.low, self.high))
        return f"{value}{unit} ({low} to {high})"


@dataclass(frozen=True)
class LeftOutScore:
    """Scores of the plain model on one domain: accuracy in 0 … 1, or mean absolute error.

    Args:
        domain: Name.
        rows: Number of rows.
        left_out: Fitted on the other domains, with a 95% interval.
        guess: Score of the most frequent class of the other domains, or of their mean.
        seen: Fitted on other rows of all domains, its own among them; None with too few rows.
        loss: What leaving it out costs, row by row: fewer hits or larger errors. The interval holds for all domains at
            once; None with too few rows.
    """

    domain: str
    rows: int
    left_out: Estimate
    guess: float
    seen: Estimate | None
    loss: Estimate | None


@dataclass(frozen=True)
class RemedyScore:
    """Gain of a remedy over the plain model on left-out domains: mean and 95% interval over domains."""

    name: str
    gain: Estimate


@dataclass(frozen=True, eq=False)
class PlainFits:
    """Plain models on left-out domains.

    Args:
        scores: One for each domain.
        outputs: Log-probabilities (n, C) or predictions (n, 1) of each row by the model that left out its domain.
        together: How many domains were left out at a time, at most.
    """

    scores: tuple[LeftOutScore, ...]
    outputs: Array
    together: int


def fit_plain(rows: ComparedRows, seed: int, progress: ReportProgress) -> PlainFits:
    """Score logistic regression, or ridge regression, with each domain left out and with all domains in training."""
    count, model = len(rows.names), plain_model(rows)
    folds = _domain_folds(rows, _MOST_FITS)
    predicted, guesses = np.zeros(len(rows.targets)), np.zeros(len(rows.targets))
    outputs = np.zeros((len(rows.targets), 1 if rows.classes is None else len(rows.classes)))
    for number, (train, test) in enumerate(folds):
        progress("left-out domains", number / len(folds))
        outputs[test] = predict_fold(model, rows, train, test)
        predicted[test] = _decide(outputs[test], rows)
        own = rows.targets[train]
        guesses[test] = own.mean() if rows.classes is None else np.bincount(own).argmax()
    inside = np.zeros(len(rows.targets))
    for train, test in KFold(5, shuffle=True, random_state=seed).split(rows.features):
        inside[test] = _decide(predict_fold(model, rows, train, test), rows)
    left, seen, guess = (rows.scores(each) for each in (predicted, inside, guesses))
    sign = 1 if rows.classes is None else -1
    tested = set(rows.large())
    scores = []
    for index, name in enumerate(rows.names):
        own = rows.domains == index
        few = index not in tested
        loss = None if few else mean_interval(sign * (left[own] - seen[own]), 1 - (1 - LEVEL) / len(tested))
        each = [_score_interval(score[own], rows) for score in (left, seen)]
        scores.append(
            LeftOutScore(name, int(own.sum()), each[0], float(guess[own].mean()), None if few else each[1], loss)
        )
    return PlainFits(tuple(scores), outputs, -(-count // len(folds)))


def fit_remedies(rows: ComparedRows, progress: ReportProgress) -> tuple[RemedyScore, ...]:
    """Score domains weighted equally, and aligned gradients, against the plain model on left-out domains.

    The gain is averaged over rows within each domain, then over domains; its interval is Student's t over domains.
    Empty with two domains: one cannot be aligned.
    """
    if len(rows.names) < 3:
        return ()
    plain = plain_model(rows)
    aligned = MomentAlignedRegressor() if rows.classes is None else MomentAlignedClassifier()
    models = {"plain": plain, "balanced": plain, "aligned": make_pipeline(StandardScaler(), aligned)}
    folds = _domain_folds(rows, _REMEDY_FITS)
    predicted = {name: np.zeros(len(rows.targets)) for name in models}
    for number, (train, test) in enumerate(folds):
        progress("remedies", number / len(folds))
        for name, model in models.items():
            predicted[name][test] = _decide(predict_fold(model, rows, train, test, remedy=name), rows)
    sign = -1 if rows.classes is None else 1
    means = {}
    for name, own in predicted.items():
        sums = np.bincount(rows.domains, sign * rows.scores(own), minlength=len(rows.names))
        means[name] = sums / rows.counts
    return tuple(
        RemedyScore(name, mean_interval(means[name] - means["plain"], LEVEL)) for name in ("balanced", "aligned")
    )


def plain_estimator(classes: tuple[str, ...] | None) -> Any:
    """scikit-learn's LogisticRegression with its defaults, or Ridge if there are no classes."""
    return Ridge() if classes is None else LogisticRegression(max_iter=1000)


def plain_model(rows: ComparedRows) -> BaseEstimator:
    """The plain estimator on standardised features."""
    return make_pipeline(StandardScaler(), plain_estimator(rows.classes))


def predict_fold(
    model: BaseEstimator, rows: ComparedRows, train: Integers, test: Integers, *, remedy: str = "plain"
) -> Array:
    """Fit on some rows; log-probabilities (m, C) of others, or predictions (m, 1)."""
    X, y = rows.features[train], rows.targets[train]
    present = None if rows.classes is None else np.unique(y)
    if present is not None and len(present) == 1:
        model = make_pipeline(DummyClassifier(strategy="most_frequent"))
    extra: dict[str, Any] = {}
    last = model.steps[-1][0]
    if remedy == "balanced":
        extra[f"{last}__sample_weight"] = len(train) / rows.counts[rows.domains[train]] / len(rows.names)
    elif remedy == "aligned" and last != "dummyclassifier":
        extra[f"{last}__domains"] = rows.domains[train]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = clone(model).fit(X, y, **extra)
    if present is None:
        numbers: Array = fitted.predict(rows.features[test]).reshape(-1, 1)
        return numbers
    return log_probabilities(fitted, rows.features[test], present, len(rows.classes or ()))


def log_probabilities(model: Any, features: Array, present: Integers, count: int) -> Array:
    """Log-probabilities (m, C) by a model of the classes `present`; the other classes are improbable."""
    table = np.full((len(features), count), 1e-6)
    table[:, present] = model.predict_proba(features)
    logs: Array = np.log(table.clip(min=1e-12))
    return logs


def mean_interval(values: Array, level: float) -> Estimate:
    """Mean with Student's t interval; a single value or equal ones have no width."""
    mean = float(values.mean())
    error = float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0
    half = float(t.ppf((1 + level) / 2, max(len(values) - 1, 1))) * error
    return Estimate(mean, mean - half, mean + half)


def _score_interval(scores: Array, rows: ComparedRows) -> Estimate:
    """Wilson's interval of an accuracy; Student's t of an error."""
    if rows.classes is None:
        return mean_interval(scores, LEVEL)
    ends = binomtest(int(scores.sum()), len(scores)).proportion_ci(LEVEL, method="wilson")
    return Estimate(float(scores.mean()), float(ends.low), float(ends.high))


def _decide(outputs: Array, rows: ComparedRows) -> NDArray[Any]:
    decided: NDArray[Any] = outputs[:, 0] if rows.classes is None else outputs.argmax(1)
    return decided


def _domain_folds(rows: ComparedRows, most: int) -> list[tuple[Integers, Integers]]:
    """Each domain left out in turn, or several at a time if there are more than `most`."""
    cv: Any = LeaveOneGroupOut() if len(rows.names) <= most else GroupKFold(most)
    return list(cv.split(rows.features, rows.targets, rows.domains))
