import numpy as np
import pytest
import torch

from momentalign.functional import alignment, domain_gram
from momentalign.theory import moment_distances, moment_gaps


def test_gaps_against_numpy() -> None:
    rng = np.random.default_rng(0)
    X, domains = rng.normal(size=(30, 4)), np.repeat(["a", "b", "c"], [5, 10, 15])
    gaps = moment_gaps(X, domains)
    parts = [X[domains == name] for name in "abc"]
    first = [np.linalg.norm(p.mean(0) - q.mean(0)) for i, p in enumerate(parts) for q in parts[:i]]
    second = [np.linalg.norm(np.cov(p.T) - np.cov(q.T)) for i, p in enumerate(parts) for q in parts[:i]]
    assert gaps.average_mean == pytest.approx(np.mean(first))
    assert gaps.average_covariance == pytest.approx(np.mean(second))
    assert gaps.mean[1, 0] == gaps.mean[0, 1] == pytest.approx(first[0])
    assert gaps.covariance[2, 1] == gaps.covariance[1, 2] == pytest.approx(second[2])


def test_one_row_has_no_covariance() -> None:
    gaps = moment_gaps([[0.0], [1.0], [2.0]], ["a", "b", "b"])
    assert np.isnan(gaps.covariance[0, 1])
    assert np.isnan(gaps.average_covariance)
    assert gaps.average_mean == 1.5


@pytest.mark.parametrize("order", [1, 2, 3])
def test_raw_moments_against_dense_tensors(order: int) -> None:
    X = np.random.default_rng(0).normal(size=(10, 3))
    domains = np.repeat([0, 1], 5)
    powers = X
    for _ in range(order - 1):
        powers = (powers[:, :, None] * X[:, None, :]).reshape(10, -1)
    expected = np.linalg.norm(powers[:5].mean(0) - powers[5:].mean(0))
    assert moment_distances(order, X, domains)[0, 1] == pytest.approx(expected)


# Mean 0 and second moment 1 for all; third moments 0, 0 and −1.5.
TWO_POINTS = [-1.0, 1.0, -1.0, 1.0]
THREE_POINTS = [-(2**0.5), 0.0, 0.0, 2**0.5]
SKEWED = [-2.0, 0.5, 0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("other", "equal_to"),
    [(THREE_POINTS, 3), (SKEWED, 2), ([0.0, 0.0, 0.0, 0.0], 1), ([1.0, 1.0, 1.0, 1.0], 0)],
)
def test_duality(other: list[float], equal_to: int) -> None:
    """Equal moments up to r give zero alignment up to order r where the residual is constant, and no further.

    At the head 0 all three classes have probability 1/3, and with one label for all the residuals are constant.
    """
    features = torch.tensor([*TWO_POINTS, *other], dtype=torch.float64)[:, None]
    domains = torch.tensor([0] * 4 + [1] * len(other))
    logits, targets = torch.zeros(len(features), 3, dtype=torch.float64), torch.zeros(len(features), dtype=torch.long)
    for order in (1, 2, 3):
        spread = alignment(order, features, logits, targets, domains, bias=False).item()
        moments = moment_distances(order, features, domains)[0, 1]
        if order <= equal_to:
            assert spread == pytest.approx(0, abs=1e-12)
            assert moments == pytest.approx(0, abs=1e-6)
        # Order by order the two distances differ by the norm of the residual tensor alone.
        own = domain_gram(order, torch.ones_like(features), logits, targets, torch.zeros_like(domains), bias=False)
        assert spread == pytest.approx(own[0, 0].item() * moments**2 / 4, abs=1e-12)
    if equal_to < 3:
        after = alignment(equal_to + 1, features, logits, targets, domains, bias=False).item()
        assert after > 1e-3
