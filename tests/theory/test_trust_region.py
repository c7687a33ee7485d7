import numpy as np
import pytest

from momentalign.theory._trust_region import largest_quadratic


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
def test_against_brute_force(eigenvalues: list[float], linear: list[float]) -> None:
    values, slope = np.array(eigenvalues), np.array(linear)
    found = largest_quadratic(values, slope, 1.5)
    assert found == pytest.approx(brute_force(values, slope, 1.5), abs=2e-4)
    assert found >= brute_force(values, slope, 1.5) - 1e-12
