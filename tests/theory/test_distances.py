import numpy as np
import pytest
import torch

from momentalign.functional import alignment, domain_gram
from momentalign.theory import DomainLosses, derivative_distances, moment_distances, moment_gaps
from tests.references import dense_derivatives
from tests.theory.problems import LOSSES, make_losses, random_head


@pytest.mark.parametrize("loss", LOSSES)
def test_estimates_against_dense_tensors(loss: str) -> None:
    losses = make_losses(loss, K=2, rows=6)
    head = random_head(losses)
    each_row = losses.features, head, losses.targets, torch.arange(12)
    for order, distances in derivative_distances(losses, head, resamples=20).items():
        a, b = dense_derivatives(order, loss, *each_row).numpy().reshape(2, 6, -1)
        noise = sum(part.var(0, ddof=1).sum() / 6 for part in (a, b))
        expected = ((a.mean(0) - b.mean(0)) ** 2).sum() - noise
        assert distances.unbiased_square[0, 1] == pytest.approx(expected, abs=1e-9)
        assert distances.unbiased_square[1, 0] == distances.unbiased_square[0, 1]


@pytest.mark.parametrize("rows", [12, 1500])
def test_agrees_with_the_unbiased_alignment(rows: int) -> None:
    """The same number for few rows; of 4,500 rows 4,000 are drawn, always the same."""
    losses = make_losses(rows=rows)
    head = random_head(losses)
    batch = losses.features, losses.inputs @ head.T, losses.targets, losses.domains
    first, second = (derivative_distances(losses, head, order=2, resamples=20) for _ in range(2))
    for order, found in first.items():
        # The spread is the mean over all K² ordered pairs of half the squared distance.
        spread = alignment(order, *batch, unbiased=True).item()
        assert spread == pytest.approx(found.unbiased_square.sum() / 18, rel=1e-9 if rows == 12 else 0.1)
        np.testing.assert_array_equal(found.square_low, second[order].square_low)


def test_intervals_cover() -> None:
    """Two domains of known distance: most 90% intervals hold it, and those of one domain with itself hold 0."""
    covered, covered_zero = 0, 0
    head = np.array([[0.5, 0.0]])
    rng = np.random.default_rng(0)

    def draw(n: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, 1)) + shift
        return X, (rng.uniform(size=n) < 0.5).astype(int)

    def domains(n: int, *shifts: float) -> DomainLosses:
        X, y = zip(*(draw(n, shift) for shift in shifts), strict=True)
        return DomainLosses(np.vstack(X), np.hstack(y), np.repeat(np.arange(len(shifts)), n), loss="logistic")

    truth = domains(200_000, 0.0, 1.0).derivative_norms(head, 1)[1][0, 1] ** 2
    for _ in range(60):
        found = derivative_distances(domains(80, 0.0, 1.0, 0.0), head, order=1, resamples=100)[1]
        covered += found.square_low[0, 1] <= truth <= found.square_high[0, 1]
        covered_zero += found.square_low[0, 2] <= 0 <= found.square_high[0, 2]
    assert covered >= 48
    assert covered_zero >= 48


def test_intervals_of_two_samples_of_one_domain_hold_zero_in_many_dimensions() -> None:
    """Replicates vary about the plain squares, which noise in 40 dimensions lifts far above what they vary by."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 40)), rng.normal(size=80)
    losses = DomainLosses(X, y, np.repeat([0, 1], 40), loss="squared_error")
    head = np.zeros((1, 41))
    found = derivative_distances(losses, head, order=1, resamples=100)[1]
    assert found.square_low[0, 1] < 0 < found.square_high[0, 1] < losses.derivative_norms(head, 1)[1][0, 1] ** 2


def test_one_row() -> None:
    losses = DomainLosses([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], ["a", "b", "b", "b"])
    found = derivative_distances(losses, np.zeros((2, 2)), order=1, resamples=20)[1]
    assert np.isnan([found.unbiased_square[0, 1], found.square_low[0, 1]]).all()
    gaps = moment_gaps([[0.0], [1.0], [2.0]], ["a", "b", "b"])
    assert np.isnan([gaps.covariance[0, 1], gaps.average_covariance]).all()
    assert gaps.average_mean == 1.5


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
