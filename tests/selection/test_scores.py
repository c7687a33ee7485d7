"""Scores of records: numbers in, numbers out."""

import subprocess
import sys

import numpy as np
import pytest

from momentalign.selection import best_record, record_scores

STEPS = np.array([0, 100, 200])


def extrapolated(accuracies, rows=None, steps=STEPS, total_steps=201, **options):
    return record_scores("extrapolated", np.array(accuracies), rows, steps, total_steps=total_steps, **options)


def test_extrapolated_by_hand():
    scores = extrapolated([[0.5, 0.5], [0.9, 0.8], [0.7, 0.71]], reach=3.0)
    np.testing.assert_allclose(scores, [np.nan, 0.8 - 3 * 0.1, 0.7 - 3 * 0.01])
    rows = np.array([100, 400])
    error = np.sqrt(0.9 * 0.1 / 100 + 0.8 * 0.2 / 400)
    scores = extrapolated([[0.5, 0.5], [0.9, 0.8], [0.7, 0.71]], rows, reach=3.0)
    np.testing.assert_allclose(scores, [np.nan, 0.8 - 3 * (0.1 - 2 * error), 0.7])


def test_extrapolated_with_three_domains_uses_best_and_worst():
    error = np.sqrt(0.9 * 0.1 / 50 + 0.6 * 0.4 / 200)
    (score,) = extrapolated([[0.7, 0.9, 0.6]], np.array([10, 50, 200]), np.array([100]), reach=2.0)
    assert score == pytest.approx(0.6 - 2 * (0.3 - 2 * error))


@pytest.mark.parametrize("rule", ["training-domain", "extrapolated"])
def test_one_training_domain_scores_its_accuracy(rule):
    accuracies = np.array([[0.5], [0.9], [0.8]])
    scores = record_scores(rule, accuracies, np.array([7]), STEPS, total_steps=201)
    np.testing.assert_array_equal(scores[1:], accuracies[1:, 0])


@pytest.mark.parametrize("rule", ["training-domain", "extrapolated"])
def test_scores_do_not_depend_on_the_order_of_domains(rule):
    rng = np.random.default_rng(0)
    accuracies = rng.integers(0, 4, size=(200, 4)) / 4  # many ties
    rows, steps = rng.integers(5, 500, size=4), np.arange(1, 201)
    scores = record_scores(rule, accuracies, rows, steps, total_steps=201)
    for order in ([3, 1, 0, 2], [1, 2, 3, 0]):
        permuted = record_scores(rule, accuracies[:, order], rows[order], steps, total_steps=201)
        np.testing.assert_allclose(permuted, scores)


def test_extrapolated_never_exceeds_the_worst_domain_and_falls_with_the_reach():
    rng = np.random.default_rng(0)
    accuracies, rows, steps = rng.random((100, 3)), np.array([20, 50, 90]), np.arange(100, 200)
    previous = accuracies.min(axis=1)
    for reach in (0, 0.5, 2, 10):
        scores = extrapolated(accuracies, rows, steps, reach=reach)
        assert (scores <= previous).all()
        previous = scores


@pytest.mark.parametrize(
    ("total_steps", "first"), [(5001, 100), (300, 6), (10, 1), (2, 1)], ids=["published", "demo", "short", "two steps"]
)
def test_extrapolated_starts_after_the_warm_up(total_steps, first):
    steps = np.arange(total_steps)
    scores = extrapolated(np.full((total_steps, 2), 0.5), None, steps, total_steps)
    assert best_record(scores) == first
    assert np.isnan(scores[:first]).all()


def test_a_missing_accuracy_cannot_be_chosen():
    for rule in ("training-domain", "extrapolated"):
        accuracies = np.array([[0.5, 0.5], [0.9, np.nan], [0.6, 0.6]])
        scores = record_scores(rule, accuracies, np.array([10, 10]), STEPS, total_steps=201)
        assert np.isnan(scores[1])
        assert best_record(scores) == 2


def test_best_record_takes_the_first_of_equal_scores():
    assert best_record(np.array([np.nan, 0.2, 0.4, 0.4])) == 2
    assert best_record(np.array([np.nan, np.nan])) is None
    assert best_record(np.array([])) is None


def test_scores_need_no_data_frames():
    code = "import sys; from momentalign.selection import record_scores; assert 'pandas' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("rule", "reach", "name"),
    [("oracle", 2.0, "rule"), *[("extrapolated", reach, "reach") for reach in (-1, float("nan"), float("inf"))]],
)
def test_bad_arguments(rule, reach, name):
    with pytest.raises(ValueError, match=f"'{name}'"):
        record_scores(rule, np.ones((1, 2)), None, np.array([1]), total_steps=2, reach=reach)
