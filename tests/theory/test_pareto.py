import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from momentalign.theory import DomainLosses, pareto_point, smallest_combination
from momentalign.theory._minimize import mixture_minimizer
from tests.theory.problems import LOSSES, make_losses, random_head, reference_derivatives

pytestmark = pytest.mark.slow


def largest_norm(losses: DomainLosses, weights: list[float]) -> float:
    head = mixture_minimizer(losses, weights)
    return float(losses.gradients(head).flatten(1).norm(dim=1).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_optimality_by_the_quadratic_program(loss: str) -> None:
    """The Gram with its L2 corrections says that 0 is in the hull of the gradients; dense gradients agree."""
    losses = make_losses(loss)
    point = pareto_point(losses)
    assert point.check.norm < 1e-7
    gradients = reference_derivatives(1, losses, torch.from_numpy(point.head))
    gradients = (gradients + losses.l2 * torch.from_numpy(point.head).flatten()).numpy()
    np.testing.assert_allclose(point.weights @ gradients, 0, atol=1e-9)
    np.testing.assert_allclose(point.gradient_norms, np.linalg.norm(gradients, axis=1), atol=1e-9)
    assert point.check.norm == pytest.approx(np.linalg.norm(point.check.weights @ gradients), abs=1e-7)


def test_any_other_head_is_not_optimal() -> None:
    losses = make_losses()
    head = random_head(losses)
    gradients = reference_derivatives(1, losses, head) + losses.l2 * head.flatten()
    found = smallest_combination(gradients @ gradients.T)
    assert found.norm > 0.01
    assert found.norm == pytest.approx(float((torch.from_numpy(found.weights) @ gradients).norm()))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("seed", "K"), [(1, 3), (2, 3), (3, 2)])
def test_no_mixture_on_a_grid_is_better(loss: str, seed: int, K: int) -> None:
    losses = make_losses(loss, seed=seed, K=K)
    found = pareto_point(losses).gradient_norms.max()
    steps = np.linspace(0, 1, 13 if K == 3 else 101)
    pairs = [[a, b] for a in steps for b in steps if a + b <= 1 + 1e-12] if K == 3 else [[a] for a in steps]
    grid = [largest_norm(losses, [*weights, 1 - sum(weights)]) for weights in pairs]
    assert 0.9 * min(grid) <= found <= min(grid) + 1e-9


def test_common_optimum() -> None:
    """Where one head is best everywhere it is found, and g is zero."""
    losses = make_losses(K=2)
    twin = DomainLosses(
        torch.cat([losses.features, losses.features]),
        torch.cat([losses.targets, losses.targets]),
        ["a"] * 24 + ["b"] * 24,
    )
    assert pareto_point(twin).gradient_norms.max() < 1e-9


def test_convexity_is_needed() -> None:
    """The paper's counter-example: sin θ and θ³ at 0 pass the test by gradients, yet −0.5 is better for both."""
    gradients = np.array([np.cos(0.0), 3 * 0.0**2])
    assert smallest_combination(np.outer(gradients, gradients)).norm < 1e-15
    assert np.sin(-0.5) < np.sin(0.0)
    assert (-0.5) ** 3 < 0.0**3


@pytest.mark.parametrize("seed", range(10))
def test_smallest_combination_against_a_general_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(4, 3 + seed % 4)) + 0.3 * seed
    gram = vectors @ vectors.T
    weights, norm = smallest_combination(gram)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1)
    assert norm == pytest.approx(np.linalg.norm(weights @ vectors), abs=1e-7)
    other = minimize(
        lambda a: a @ gram @ a,
        np.full(4, 0.25),
        jac=lambda a: 2 * gram @ a,
        method="SLSQP",
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
        options={"ftol": 1e-14},
    )
    assert norm**2 == pytest.approx(other.fun, abs=1e-8)
    # Optimality: no vector reaches further back along the answer than the answer itself.
    assert (gram @ weights).min() >= norm**2 - 1e-9


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_scale_of_the_vectors_does_not_matter(scale: float) -> None:
    weights, norm = smallest_combination(scale**2 * np.array([[1.0, 0.0], [0.0, 4.0]]))
    np.testing.assert_allclose(weights, [0.8, 0.2], rtol=1e-9)
    assert norm == pytest.approx(scale * np.sqrt(0.8), rel=1e-9)

    weights, norm = smallest_combination(np.zeros((3, 3)))
    assert weights.sum() == pytest.approx(1)
    assert norm == 0
