import numpy as np
import pytest
import torch

from momentalign.functional import alignment
from momentalign.theory import DomainLosses, derivative_distances
from tests.theory.problems import LOSSES, make_losses, random_head, reference_derivatives


@pytest.mark.parametrize("loss", LOSSES)
def test_estimates_against_dense_tensors(loss: str) -> None:
    losses = make_losses(loss, K=2, rows=6)
    head = random_head(losses)
    found = derivative_distances(losses, head, resamples=20)
    single = DomainLosses.__new__(DomainLosses)
    single.__dict__.update(losses.__dict__, domains=torch.arange(12))
    for order, distances in found.items():
        samples = reference_derivatives(order, single, head).numpy()
        a, b = samples[:6], samples[6:]
        assert distances.plain[0, 1] == pytest.approx(np.linalg.norm(a.mean(0) - b.mean(0)), abs=1e-7)
        noise = sum(part.var(0, ddof=1).sum() / 6 for part in (a, b))
        expected = ((a.mean(0) - b.mean(0)) ** 2).sum() - noise
        assert distances.unbiased_squares[0, 1] == pytest.approx(expected, abs=1e-9)
        assert distances.unbiased_squares[1, 0] == distances.unbiased_squares[0, 1]
        assert (distances.unbiased >= 0).all()


def test_agrees_with_the_unbiased_alignment() -> None:
    losses = make_losses()
    head = random_head(losses)
    batch = losses.features, losses.inputs @ head.T, losses.targets, losses.domains
    for order, found in derivative_distances(losses, head, resamples=20).items():
        # The spread is the mean over all K² ordered pairs of half the squared distance.
        assert alignment(order, *batch, unbiased=True).item() == pytest.approx(found.unbiased_squares.sum() / 18)


def test_intervals_cover() -> None:
    """Two domains of known distance: most 90% intervals hold it, and those of one domain with itself hold 0."""
    covered, covered_zero = 0, 0
    head = np.array([[0.5, 0.0]])
    rng = np.random.default_rng(0)

    def draw(n: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, 1)) + shift
        return X, (rng.uniform(size=n) < 0.5).astype(int)

    big = [draw(200_000, shift) for shift in (0.0, 1.0)]
    losses = DomainLosses(
        np.vstack([p[0] for p in big]), np.hstack([p[1] for p in big]), [0] * 200_000 + [1] * 200_000, loss="logistic"
    )
    truth = float(losses.gradients(head)[0].sub(losses.gradients(head)[1]).square().sum())
    for seed in range(60):
        parts = [draw(80, shift) for shift in (0.0, 1.0, 0.0)]
        losses = DomainLosses(
            np.vstack([p[0] for p in parts]),
            np.hstack([p[1] for p in parts]),
            np.repeat([0, 1, 2], 80),
            loss="logistic",
        )
        found = derivative_distances(losses, head, order=1, resamples=100, seed=seed)[1]
        covered += found.low[0, 1] <= truth <= found.high[0, 1]
        covered_zero += found.low[0, 2] <= 0 <= found.high[0, 2]
    assert covered >= 48
    assert covered_zero >= 48


def test_one_row() -> None:
    losses = DomainLosses([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], ["a", "b", "b", "b"])
    found = derivative_distances(losses, np.zeros((2, 2)), order=1, resamples=20)[1]
    assert np.isnan(found.unbiased_squares[0, 1])
    assert np.isfinite(found.plain[0, 1])


def test_many_rows_are_drawn_from() -> None:
    losses = make_losses(rows=100)
    head = random_head(losses)
    few, again = (derivative_distances(losses, head, order=2, resamples=20, max_rows=150)[2] for _ in range(2))
    every = derivative_distances(losses, head, order=2, resamples=20)[2]
    np.testing.assert_array_equal(few.low, again.low)
    np.testing.assert_array_equal(few.plain, every.plain)
    assert (few.unbiased_squares != every.unbiased_squares).any()
