import numpy as np
import pytest
from scipy.optimize import minimize

from momentalign.theory import smallest_combination


@pytest.mark.parametrize("seed", range(10))
def test_against_a_general_solver(seed: int) -> None:
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
def test_scale_does_not_matter(scale: float) -> None:
    weights, norm = smallest_combination(scale**2 * np.array([[1.0, 0.0], [0.0, 4.0]]))
    np.testing.assert_allclose(weights, [0.8, 0.2], rtol=1e-9)
    assert norm == pytest.approx(scale * np.sqrt(0.8), rel=1e-9)


def test_zero_vectors() -> None:
    weights, norm = smallest_combination(np.zeros((3, 3)))
    assert weights.sum() == pytest.approx(1)
    assert norm == 0
