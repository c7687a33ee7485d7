"""The Taylor bound against measured transfer.

The bound leaves out a term o(δ^{N/2}). Two ways to control it: the remainder that the package computes, with which the
bound has to hold at any radius; and a radius so small that the remainder is a small part of the bound. At order 1 the
linear term is attained by the supremum, so the term left out may have either sign and the remainder has to be added at
any radius. From order 2 on Frobenius norms and the sum of suprema leave room of the size of the last term, and with a
small radius that room is larger than what is left out: the bound then holds as it stands.
"""

from itertools import product
from math import factorial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from momentalign.theory import DomainLosses, TaylorBound, ball_radius, pareto_point, taylor_bounds, transfer_measures
from momentalign.theory._minimize import mixture_minimizer
from momentalign.theory._taylor import largest_cumulant
from tests.theory.problems import LOSSES, make_losses, random_head, reference_derivatives

pytestmark = pytest.mark.slow

SMALL, LARGE = 0.02, 1.0
HIGH = [("logistic", 5)]
"""A higher order, with one feature: dense tensors grow fast."""


def bounds_at(losses: DomainLosses, center: Any, radius: float, order: int) -> dict[tuple[int, str], TaylorBound]:
    minima = np.arange(len(losses)) / 10
    return taylor_bounds(losses, center, radius, minima, losses.derivative_norms(center, order))


def left_out(losses: DomainLosses, center: Tensor, step: Tensor, order: int) -> np.ndarray:
    """What the expansion of the domains' losses leaves out at a step, with dense tensors applied to the step."""
    left, powers = losses.values(center + step) - losses.values(center), torch.ones(1, dtype=torch.float64)
    for r in range(1, order + 1):
        powers = torch.outer(powers, step.flatten()).flatten()
        left = left - (reference_derivatives(r, losses, center) @ powers).numpy() / factorial(r)
    return left


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_holds_on_random_softmax_problems(first: int) -> None:
    for seed in range(first, first + 50):
        losses = make_losses(seed=seed, K=2 + seed % 2, rows=8)
        center, off = mixture_minimizer(losses, np.ones(len(losses))), ~np.eye(len(losses), dtype=bool)
        norms = losses.derivative_norms(center, 3)
        for radius in (SMALL, LARGE):
            measures = transfer_measures(losses, center, radius)
            for (order, form), bound in taylor_bounds(losses, center, radius, measures.minima, norms).items():
                if form != "irm":
                    assert (measures.one_sided <= bound.pairs + bound.remainder + 1e-9).all()
                    if radius == SMALL and order > 1:
                        assert (measures.one_sided <= bound.pairs + 1e-12)[off].all()


@pytest.mark.parametrize(("loss", "order"), [*product(LOSSES, (1, 2, 3)), *HIGH])
def test_terms_against_dense_tensors(loss: str, order: int) -> None:
    losses = make_losses(loss, rows=6, d=2 if order < 4 else 1)
    head, radius, off = random_head(losses), 0.7, ~np.eye(3, dtype=bool)
    gaps = losses.values(head) - np.arange(3) / 10
    tensors = [reference_derivatives(r, losses, head) for r in range(1, order + 1)]
    terms = [radius**r / factorial(r) * torch.cdist(one, one).numpy() for r, one in enumerate(tensors, 1)]
    expected = gaps[None, :] - gaps[:, None] + sum(terms)
    found = bounds_at(losses, head, radius, order)
    full, short, g = (found[order, form] for form in ("full", "irm", "g"))
    np.testing.assert_allclose(full.pairs[off], expected[off], atol=1e-7)
    np.testing.assert_allclose(short.pairs[off], sum(terms[1:], np.zeros((3, 3)))[off], atol=1e-7)
    largest = losses.gradients(head).flatten(1).norm(dim=1).max().item()
    np.testing.assert_allclose(g.pairs[off], (expected - terms[0] + 2 * radius * largest)[off], atol=1e-7)
    assert (full.pairs <= g.pairs + 1e-9)[off].all()
    assert full.mixture(0.25) == pytest.approx(expected[off].max() * 2 / 3 + 0.25)


@pytest.mark.parametrize(("loss", "order"), [*product(LOSSES, (1, 2, 3)), *HIGH])
def test_remainder_covers_what_the_expansion_leaves_out(loss: str, order: int) -> None:
    """Against the expansion itself, with the tensors applied to the step, at random steps of every length."""
    losses = make_losses(loss, rows=6, K=2, d=2 if order < 4 else 1)
    center = random_head(losses)
    for seed in range(20):
        step = random_head(losses, seed + 1)
        left = left_out(losses, center, step, order)
        remainder = bounds_at(losses, center, float(step.norm()), order)[order, "full"].remainder
        # The L2 term is the same in both domains.
        assert abs(left[1] - left[0]) <= remainder[0, 1] + 1e-9


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_smaller_remainder_would_do(loss: str, order: int) -> None:
    """A short step where the derivative left out is largest: with no curvature in the other domain, or opposite."""
    tilt, radius = 0.01, 0.02
    if loss == "squared_error":
        X, first = [[1.0, 0.0], [0.0, 0.0]], torch.zeros(1, 2, dtype=torch.float64)
    else:
        X, steep = [[1.0, tilt], [1.0, -tilt]], np.log(2 + 3**0.5)  # where the third derivative is largest
        one, other = (0.0, 40.0) if order == 1 else (steep, -steep)
        first = torch.tensor([[(one + other) / 2, (one - other) / (2 * tilt)]], dtype=torch.float64)
    losses = DomainLosses(X, [0, 1], ["a", "b"], loss=loss, bias=False, l2=1e-9)
    along = torch.tensor([[radius, 0.0]], dtype=torch.float64)
    two = loss == "cross_entropy"  # two rows of the head, a logit's difference between them
    center = torch.cat([-first / 2, first / 2]) if two else first
    step = torch.cat([-along, along]) / 2**0.5 if two else along
    left = left_out(losses, center, step, order)
    remainder = bounds_at(losses, center, radius, order)[order, "full"].remainder
    exact = 0.0 if loss == "squared_error" and order == 2 else abs(left[1] - left[0])
    assert remainder[0, 1] == remainder[1, 0] == pytest.approx(exact, rel=0.01)


def test_logistic_bounds_of_high_order_close_in_on_the_measure() -> None:
    """Inside the expansion's range the remainder falls to nothing, and what is left are the norms."""
    losses = make_losses("logistic", rows=6)
    center = pareto_point(losses).head
    radius = 1.5 / float(losses.inputs.norm(dim=1).max())
    measures = transfer_measures(losses, center, radius)
    found = taylor_bounds(losses, center, radius, measures.minima, losses.derivative_norms(center, 20))
    bounds = [found[order, "full"] for order in (2, 5, 8, 20)]
    for bound in bounds:
        assert (measures.one_sided <= bound.pairs + bound.remainder + 1e-9).all()
    remainders = [bound.remainder.max() for bound in bounds]
    assert remainders == sorted(remainders, reverse=True)
    assert remainders[-1] < 1e-5 < 1e-2 < remainders[0]
    np.testing.assert_allclose(bounds[-1].pairs, bounds[-2].pairs, rtol=0.01, atol=1e-4)


def test_largest_cumulants() -> None:
    known = {2: 1 / 4, 3: 1 / (6 * 3**0.5), 4: 1 / 8, 6: 1 / 4, 8: 17 / 16}
    for order, value in known.items():
        assert largest_cumulant(order) == pytest.approx(value, rel=1e-9)


def test_fifth_cumulant_of_three_values_is_largest_for_two() -> None:
    """On a grid of 0, x and 1 with weights on the simplex: none above what two values reach."""
    weights = np.array([(i, j, 60 - i - j) for i in range(61) for j in range(61 - i)]) / 60
    largest = 0.0
    for x in np.linspace(0, 1, 41):
        values = np.array([0.0, x, 1.0])
        deviations = values - (weights @ values)[:, None]
        second, third, fifth = ((weights * deviations**k).sum(1) for k in (2, 3, 5))
        largest = max(largest, float(np.abs(fifth - 10 * third * second).max()))
    assert 0.998 * largest_cumulant(5) < largest <= largest_cumulant(5)


@pytest.mark.parametrize("loss", LOSSES)
def test_ball_holds_the_heads_of_small_excess_loss(loss: str) -> None:
    losses = make_losses(loss, l2=0.1)
    center = torch.from_numpy(pareto_point(losses).head)
    for seed in range(50):
        step = 10 ** (seed % 5 - 2) * random_head(losses, seed)
        excess = float((losses.values(center + step) - losses.values(center)).max())
        assert excess > 0
        assert float(step.norm()) <= ball_radius(excess, losses.l2) * (1 + 1e-9)


def test_under_irm() -> None:
    """A common optimum: the gaps and the gradients vanish, and the short form equals the full one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    # Targets orthogonal to the features make θ = 0 optimal for squared error, whatever the features' scale.
    parts = [X, X @ np.diag([2.0, 0.5])]
    y = rng.normal(size=20)
    design = np.column_stack([X, np.ones(20)])
    y = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    losses = DomainLosses(np.vstack(parts), np.tile(y, 2), np.repeat([0, 1], 20), loss="squared_error")
    center = pareto_point(losses).head
    measures = transfer_measures(losses, center, 0.5)
    found = taylor_bounds(losses, center, 0.5, measures.minima, losses.derivative_norms(center, 2))
    full, short = found[2, "full"], found[2, "irm"]
    np.testing.assert_allclose(full.pairs, short.pairs, atol=1e-7)
    assert (measures.one_sided <= short.pairs + 1e-9).all()


@pytest.mark.parametrize(("excess", "l2", "named"), [(0, 1e-2, "'excess_loss'"), (0.1, -1, "'l2'")])
def test_bad_settings(excess: float, l2: float, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        ball_radius(excess, l2)
