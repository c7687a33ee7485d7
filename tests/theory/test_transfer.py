from itertools import permutations

import numpy as np
import pytest
import torch

from momentalign.theory import (
    DomainLosses,
    pareto_point,
    transfer_measures,
)
from momentalign.theory._minimize import mixture_minimizer
from momentalign.theory._transfer import ascend, largest_quadratic
from tests.theory.problems import LOSSES, make_losses, mixture_transfer, quadratics, random_head

pytestmark = pytest.mark.slow


def heads_of_the_ball(center: np.ndarray, radius: float, number: int = 200) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    steps = rng.normal(size=(number, *center.shape))
    lengths = np.linalg.norm(steps.reshape(number, -1), axis=1) / rng.uniform(size=number)
    return [center + radius * step / length for step, length in zip(steps, lengths, strict=True)]


def test_quadratics_by_hand() -> None:
    """L = ½θ² and ½·3(θ − 1)²: the difference θ² − 3θ + 3/2 on [−1, 1] is largest at −1, its negative at 1."""
    measures = transfer_measures(quadratics([1.0, 3.0], [0.0, 1.0]), [[0.0]], 1.0)
    assert measures.exact
    np.testing.assert_allclose(measures.one_sided, [[0, 5.5], [0.5, 0]], atol=1e-6)
    np.testing.assert_allclose(measures.symmetric, [[0, 5.5], [5.5, 0]], atol=1e-6)
    np.testing.assert_allclose(measures.realizable, [[0, 5.5], [5.5, 0]], atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("radius", [0.1, 1.0, 10.0])
def test_ascent_reaches_the_closed_form_on_quadratics(seed: int, radius: float) -> None:
    losses = make_losses("squared_error", seed=seed)
    center = torch.from_numpy(pareto_point(losses).head)
    heads = [mixture_minimizer(losses, row) for row in np.eye(3)]
    exact = transfer_measures(losses, center, radius)
    for i, j in permutations(range(3), 2):
        largest = ascend(losses.mixture(np.eye(3)[j] - np.eye(3)[i]), center, radius, [heads[i], heads[j]])
        gap = exact.minima[j] - exact.minima[i]
        assert largest - gap == pytest.approx(exact.one_sided[i, j], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_definitions_hold_at_every_head_of_the_ball(loss: str) -> None:
    """No head of the ball exceeds a measure."""
    losses = make_losses(loss)
    center = pareto_point(losses).head
    measures = transfer_measures(losses, center, 2.0)
    for head in heads_of_the_ball(center, 2.0):
        values = losses.values(head)
        gaps = values - measures.minima
        assert (gaps >= 0).all()
        assert (gaps[None, :] - gaps[:, None] <= measures.one_sided + 1e-9).all()
        assert (np.abs(values[None, :] - values[:, None]) <= measures.realizable + 1e-9).all()
    assert (measures.symmetric == measures.symmetric.T).all()
    assert (measures.one_sided.diagonal() == 0).all()
    assert measures.exact == (loss == "squared_error")


def test_supremum_of_a_softmax_on_a_grid() -> None:
    """Two parameters only: one feature, one logit and a bias."""
    losses = make_losses("logistic", d=1, K=2)
    measures = transfer_measures(losses, [[0.2, -0.1]], 1.5)
    angles, lengths = np.meshgrid(np.linspace(0, 2 * np.pi, 181), np.linspace(0, 1.5, 16))
    points = np.stack([0.2 + lengths * np.cos(angles), -0.1 + lengths * np.sin(angles)], -1).reshape(-1, 1, 2)
    gaps = np.array([losses.values(point) for point in points]) - measures.minima
    assert measures.one_sided[0, 1] == pytest.approx((gaps[:, 1] - gaps[:, 0]).max(), abs=1e-3)
    assert measures.one_sided[1, 0] == pytest.approx((gaps[:, 0] - gaps[:, 1]).max(), abs=1e-3)


def test_mixtures() -> None:
    """A mixture of one domain is that domain, and a domain transfers to itself for nothing."""
    losses = make_losses("squared_error")
    center = random_head(losses).numpy()
    measures = transfer_measures(losses, center, 1.0)
    assert mixture_transfer(losses, [1, 0, 0], [0, 0, 1], center, 1.0) == pytest.approx(measures.one_sided[0, 2])
    assert mixture_transfer(losses, [1, 0, 0], [1, 0, 0], center, 1.0) == pytest.approx(0, abs=1e-12)


def test_l2_cancels_but_for_the_minima() -> None:
    losses = make_losses()
    stronger = make_losses(l2=0.1)
    head = random_head(losses)
    found, other = (transfer_measures(these, head, 0.5) for these in (losses, stronger))
    np.testing.assert_allclose(found.realizable, other.realizable, atol=1e-9)


def test_deterministic_and_unchanged_by_the_order_of_rows() -> None:
    losses = make_losses()
    order = np.random.default_rng(0).permutation(36)
    shuffled = DomainLosses(losses.features[order], losses.targets[order], losses.domains[order])
    head = random_head(losses)
    first, second, third = (transfer_measures(these, head, 1.0) for these in (losses, losses, shuffled))
    np.testing.assert_array_equal(first.one_sided, second.one_sided)
    np.testing.assert_allclose(first.one_sided, third.one_sided, atol=1e-8)


def test_bad_radius() -> None:
    losses = make_losses()
    with pytest.raises(ValueError, match="'radius'"):
        transfer_measures(losses, torch.zeros(losses.shape), -1)


def brute_force(eigenvalues: np.ndarray, linear: np.ndarray, radius: float) -> float:
    angles = np.linspace(0, 2 * np.pi, 20001)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    best = 0.0
    for r in np.linspace(0, radius, 101):
        best = max(best, float((0.5 * eigenvalues @ (r * circle) ** 2 + linear @ (r * circle)).max()))
    return best


@pytest.mark.parametrize(
    ("eigenvalues", "linear"),
    [
        ([2.0, -1.0], [0.3, 0.4]),
        ([-1.0, -2.0], [0.1, 0.1]),  # the maximum lies inside
        ([-1.0, -2.0], [3.0, 4.0]),
        ([2.0, 1.0], [0.0, 0.1]),  # hard: no slope along the top eigenvector
        ([2.0, 1.0], [1e-17, 0.1]),  # next to the hard case
        ([2.0, 1.0], [0.0, 5.0]),
        ([0.0, 0.0], [3.0, 4.0]),
        ([1.0, 1.0], [0.0, 0.0]),
        ([-1.0, 0.0], [0.5, 0.0]),
    ],
)
def test_largest_quadratic_against_brute_force(eigenvalues: list[float], linear: list[float]) -> None:
    values, slope = np.array(eigenvalues), np.array(linear)
    found = largest_quadratic(values, slope**2, 1.5)
    assert found == pytest.approx(brute_force(values, slope, 1.5), abs=2e-4)
    assert found >= brute_force(values, slope, 1.5) - 1e-12
