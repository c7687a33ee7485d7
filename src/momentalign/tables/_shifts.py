"""How each domain differs from the others: shares of the classes, features, and the relation between the two."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import chi2_contingency, mannwhitneyu, ttest_ind
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold

from momentalign._types import Array, ReportProgress
from momentalign.tables._plain_fits import LEVEL, ComparedRows, log_probabilities, mean_interval

_OWN_ROWS = 30
"""Fewest rows of a domain for a model of its own."""


@dataclass(frozen=True)
class ShiftTest:
    """Size of a difference, and whether it was found: p below 0.05 over the number of domains tested."""

    size: float
    found: bool


@dataclass(frozen=True)
class DomainShift:
    """Differences between one domain and the others; None where it has too few rows for the test.

    Args:
        domain: Name.
        label: Label shift: half the sum of differences of the class shares; of numbers, the difference of means in
            standard deviations. Chi-squared test, or Welch's.
        features: Diversity shift: area under the ROC curve of a linear discriminant analysis that tells its rows from
            others by the features, on rows held out; 0.5 is chance. Mann-Whitney tests of two halves of the rows.
        relation: Correlation shift: share of the loss that a linear correction, fitted on its own rows, removes from
            the predictions of the others' model with its level adjusted, on rows held out. Paired t test.
    """

    domain: str
    label: ShiftTest | None
    features: ShiftTest | None
    relation: ShiftTest | None


def find_shifts(rows: ComparedRows, outputs: Array, seed: int, progress: ReportProgress) -> tuple[DomainShift, ...]:
    """Compare each domain with all others; `outputs` are those of the models that left out each row's domain."""
    tested = rows.large()
    threshold = (1 - LEVEL) / max(len(tested), 1)
    fifths, halves = _score_domains(rows, 5, seed), _score_domains(rows, 2, seed)
    shifts = []
    for index, name in enumerate(rows.names):
        progress("kinds of difference", index / len(rows.names))
        own = rows.domains == index
        if index not in tested or own.all():
            shifts.append(DomainShift(name, None, None, None))
            continue
        shifts.append(
            DomainShift(
                name,
                _label_shift(rows, own, threshold),
                _feature_shift(fifths, halves, index, own, threshold),
                _relation_shift(rows, own, outputs[own], threshold, seed),
            )
        )
    return tuple(shifts)


def class_shares(rows: ComparedRows) -> Array:
    """Share of each class in each domain, shape (K, C)."""
    counts = np.zeros((len(rows.names), len(rows.classes or ())))
    np.add.at(counts, (rows.domains, rows.targets), 1)
    shares: Array = counts / counts.sum(1, keepdims=True)
    return shares


def _label_shift(rows: ComparedRows, own: NDArray[np.bool_], threshold: float) -> ShiftTest:
    if rows.classes is None:
        one, other = rows.targets[own], rows.targets[~own]
        spread = float(rows.targets.std())
        size = abs(float(one.mean() - other.mean())) / spread if spread else 0.0
        if not one.std() and not other.std():
            return ShiftTest(size, size > 0)
        return ShiftTest(size, float(ttest_ind(one, other, equal_var=False).pvalue) < threshold)
    counts = np.stack([np.bincount(rows.targets[part], minlength=len(rows.classes)) for part in (own, ~own)])
    shares = counts / counts.sum(1, keepdims=True)
    size = 0.5 * float(np.abs(shares[0] - shares[1]).sum())
    # Classes with less than five expected rows count as one: the test is not reliable for them.
    expected = counts.sum(1, keepdims=True) * counts.sum(0) / counts.sum()
    rare = expected.min(0) < 5
    merged = np.column_stack([counts[:, ~rare], counts[:, rare].sum(1)])
    merged = merged[:, merged.sum(0) > 0]
    if merged.shape[1] < 2:
        return ShiftTest(size, False)
    return ShiftTest(size, float(chi2_contingency(merged).pvalue) < threshold)


class _DomainScores(NamedTuple):
    """Out-of-fold probability of each domain given the features, (n, K), and the fold of each row."""

    probabilities: Array
    folds: NDArray[np.intp]


def _score_domains(rows: ComparedRows, number: int, seed: int) -> _DomainScores:
    scores = _DomainScores(np.zeros((len(rows.domains), len(rows.names))), np.zeros(len(rows.domains), dtype=np.intp))
    # Few rows beside many columns: a fixed ridge keeps the pooled covariance invertible.
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.01)
    for fold, (train, test) in enumerate(KFold(number, shuffle=True, random_state=seed).split(rows.features)):
        fitted = model.fit(rows.features[train], rows.domains[train])
        scores.probabilities[np.ix_(test, fitted.classes_)] = fitted.predict_proba(rows.features[test])
        scores.folds[test] = fold
    return scores


def _feature_shift(
    fifths: _DomainScores, halves: _DomainScores, index: int, own: NDArray[np.bool_], threshold: float
) -> ShiftTest:
    """Size from five folds; tests within each half of the rows, scored by one model fitted on the other half.

    Scores from several folds are dependent, which a joint test would ignore.
    """
    p_values = []
    for fold in (0, 1):
        scores, mine = (values[halves.folds == fold] for values in (halves.probabilities[:, index], own))
        if mine.any() and not mine.all():
            p_values.append(float(mannwhitneyu(scores[mine], scores[~mine], alternative="greater").pvalue))
    found = bool(p_values) and len(p_values) * min(p_values) < threshold
    return ShiftTest(float(roc_auc_score(own, fifths.probabilities[:, index])), found)


def _relation_shift(
    rows: ComparedRows, own: NDArray[np.bool_], outputs: Array, threshold: float, seed: int
) -> ShiftTest | None:
    """Compare the others' model, its level adjusted, with a correction by the domain's own rows, on rows held out."""
    X, y = rows.features[own], rows.targets[own]
    least = int(np.unique(y, return_counts=True)[1].min()) if rows.classes is not None else len(y)
    if len(y) < _OWN_ROWS or (rows.classes is not None and (least < 2 or len(np.unique(y)) < 2)):
        return None
    cv = KFold if rows.classes is None else StratifiedKFold
    folds = cv(min(5, least), shuffle=True, random_state=seed).split(X, y)
    level_loss, own_loss = np.zeros(len(y)), np.zeros(len(y))
    for train, test in folds:
        if rows.classes is None:
            level_loss[test] = (outputs[test, 0] + (y[train] - outputs[train, 0]).mean() - y[test]) ** 2
        else:
            offsets = fit_offsets(outputs[train], y[train])
            level_loss[test] = _log_losses(outputs[test] + offsets, y[test])
        own_loss[test] = _corrected_losses(X, y, outputs, train, test, rows.classes is None)
    gain = mean_interval(level_loss - own_loss, 1 - 2 * threshold)
    total = float(level_loss.mean())
    return ShiftTest(max(gain.value / total, 0.0) if total else 0.0, gain.low > 0)


def fit_offsets(outputs: Array, targets: NDArray[np.integer]) -> Array:
    """Offsets (C,) of the log-probabilities (n, C) that fit the classes best: a change of the level alone."""
    count = outputs.shape[1]
    shares = np.bincount(targets, minlength=count) / len(targets)

    def loss(offsets: Array) -> tuple[float, Array]:
        logits = outputs + offsets
        norms = logsumexp(logits, axis=1)
        slope = np.exp(logits - norms[:, None]).mean(0) - shares + 1e-3 * offsets
        value = norms.mean() - logits[np.arange(len(targets)), targets].mean() + 5e-4 * float(offsets @ offsets)
        return float(value), slope

    found: Array = minimize(loss, np.zeros(count), jac=True, method="L-BFGS-B").x
    return found


def _corrected_losses(
    X: Array, y: NDArray[np.float64], outputs: Array, train: NDArray[np.intp], test: NDArray[np.intp], numbers: bool
) -> Array:
    """Losses of a model of the others' outputs and the features, fitted on the domain's own rows."""
    center, scale = outputs[train].mean(0), outputs[train].std(0)
    joined = np.column_stack([(outputs - center) / np.where(scale > 0, scale, 1.0), X])
    if numbers:
        predicted = Ridge(alpha=10.0).fit(joined[train], y[train]).predict(joined[test])
        errors: Array = (predicted - y[test]) ** 2
        return errors
    model = LogisticRegression(C=0.1, max_iter=1000).fit(joined[train], y[train])
    logs = log_probabilities(model, joined[test], model.classes_, outputs.shape[1])
    return _log_losses(logs, y[test].astype(np.int64))


def _log_losses(logits: Array, targets: NDArray[np.integer]) -> Array:
    losses: Array = logsumexp(logits, axis=1) - logits[np.arange(len(targets)), targets]
    return losses
