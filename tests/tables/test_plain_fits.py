from dataclasses import replace

import numpy as np
from scipy.stats import ttest_1samp
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from momentalign.tables._plain_fits import fit_plain, fit_remedies, mean_interval
from tests.tables.rows import make_rows, silent


def test_left_out_scores_are_those_of_scikit_learn() -> None:
    rows = make_rows(moved=1)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    predicted = cross_val_predict(model, rows.features, rows.targets, groups=rows.domains, cv=LeaveOneGroupOut())
    fits = fit_plain(rows, 0, silent)
    for index, score in enumerate(fits.scores):
        own = rows.domains == index
        assert score.left_out.value == (predicted[own] == rows.targets[own]).mean()
        assert score.left_out.low < score.left_out.value < score.left_out.high
        assert score.rows == own.sum()
    assert fits.together == 1


def test_only_a_domain_that_differs_loses_by_being_left_out() -> None:
    rows = make_rows(moved=2)
    # There a column decides that is the same for all rows of the others.
    X = np.where(rows.domains[:, None] == 2, rows.features[:, [1, 2, 0]], rows.features * [1, 1, 0])
    scores = fit_plain(replace(rows, features=X), 0, silent).scores
    losing = [score.domain for score in scores if score.loss is not None and score.loss.low > 0]
    assert losing == ["site 2"]
    assert not any(score.loss is None or score.loss.excludes_zero for score in fit_plain(make_rows(), 0, silent).scores)


def test_numbers_are_scored_by_their_absolute_error() -> None:
    rows = make_rows(domains=3)
    numbers = rows.features[:, 0] + np.where(rows.domains == 1, 5.0, 0.0)
    scores = fit_plain(replace(rows, targets=numbers, classes=None), 0, silent).scores
    assert scores[1].left_out.value > 4 > scores[0].left_out.value
    assert scores[1].loss is not None
    assert scores[1].loss.low > 0


def test_small_domains_and_unknown_classes_are_no_errors() -> None:
    rows = make_rows()
    domains = np.where(np.arange(len(rows.domains)) < 4, 4, rows.domains)
    targets = np.where(domains == 3, 2, rows.targets)
    few = replace(rows, domains=domains, targets=targets, names=(*rows.names, "tiny"), classes=("no", "yes", "new"))
    scores = fit_plain(few, 0, silent).scores
    assert scores[4].seen is scores[4].loss is None
    assert scores[3].left_out.value == 0.0


def test_remedies_are_compared_over_domains() -> None:
    assert [remedy.name for remedy in fit_remedies(make_rows(), silent)] == ["balanced", "aligned"]
    assert fit_remedies(make_rows(domains=2), silent) == ()
    assert not any(remedy.gain.excludes_zero for remedy in fit_remedies(make_rows(), silent))


def test_interval_of_a_mean() -> None:
    values = np.random.default_rng(0).normal(size=20)
    low, high = ttest_1samp(values, 0).confidence_interval(0.9)
    found = mean_interval(values, 0.9)
    np.testing.assert_allclose([found.low, found.high], [low, high])
    assert mean_interval(np.zeros(3), 0.95).high == 0.0
