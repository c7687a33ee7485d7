from typing import Any

import numpy as np
import pytest

from momentalign.theory import DomainLosses, HullCheck, hull_check

pytestmark = pytest.mark.slow

CENTERS = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]])


def sample(weights: list[float], n: int, seed: int, flip: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of a mixture of three Gaussians, labels by the sum of the features (or the reverse), and their source."""
    rng = np.random.default_rng(seed)
    source = rng.choice(3, size=n, p=weights)
    X = rng.normal(size=(n, 3)) * (1 + 0.3 * source[:, None]) + CENTERS[source]
    return X, (X.sum(1) + rng.normal(size=n) > 2) ^ flip, source


def check(
    weights: list[float], n: int = 300, flip: bool = False, labels: bool = False, seed: int = 1, **options: Any
) -> HullCheck:
    X, y, source = sample([1 / 3] * 3, 900, 0)
    target, target_labels, _ = sample(weights, n, seed, flip)
    losses = DomainLosses(X, y, np.array(["a", "b", "c"])[source])
    return hull_check(losses, target, target_labels if labels else None, **options)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("weights", [[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
def test_a_mixture_is_recognised(weights: list[float], labels: bool) -> None:
    found = check(weights, n=2000, labels=labels)
    np.testing.assert_allclose(found.weights, weights, atol=0.1)
    assert found.weights.sum() == pytest.approx(1)
    assert found.tenable
    assert found.labelled == labels


def test_a_shifted_target_is_not() -> None:
    X, y, source = sample([1 / 3] * 3, 900, 0)
    found = hull_check(DomainLosses(X, y, source), X[:200] + 2)
    assert not found.tenable
    assert found.residual > 2 * found.noise
    assert found.p_value == pytest.approx(1 / 201)  # the target counts as one of the samples: never zero
    assert "is not a mixture" in str(found)


def test_labels_see_what_features_cannot() -> None:
    assert check([0.4, 0.3, 0.3], flip=True).tenable
    assert not check([0.4, 0.3, 0.3], flip=True, labels=True).tenable


def test_level_of_the_noise() -> None:
    """Under the assumption about one check in twenty fails."""
    failures = sum(not check([0.5, 0.25, 0.25], n=100, seed=seed, resamples=60).tenable for seed in range(2, 42))
    assert failures <= 6


def test_regression() -> None:
    X, _, source = sample([1 / 3] * 3, 600, 0)
    y = X.sum(1)
    losses = DomainLosses(X, y, source, loss="squared_error")
    target, _, _ = sample([0.5, 0.5, 0.0], 300, 1)
    assert hull_check(losses, target, target.sum(1)).tenable
    assert not hull_check(losses, target, -target.sum(1)).tenable


def test_constant_columns_one_row_and_many_rows() -> None:
    X = np.column_stack([np.random.default_rng(0).normal(size=6000), np.ones(6000)])
    losses = DomainLosses(X, np.arange(6000) % 2, np.repeat([0, 1], 3000))
    for target in (X[:1], X[:3000]):
        first, second = (hull_check(losses, target, resamples=20) for _ in range(2))
        assert first.tenable
        assert first.noise == second.noise


def test_residual_without_noise() -> None:
    """By hand: a feature maps to (1, √2 x, x²); both sources have the mean (1, 0, 1), the target (1, 2√2, 4)."""
    losses = DomainLosses([[-1.0], [1.0], [-1.0], [1.0]], [0, 1, 0, 1], ["a", "a", "b", "b"])
    found = hull_check(losses, [[2.0]], resamples=20)
    assert found.residual == pytest.approx((2 * 2.0**2 + 3.0**2) ** 0.5)
