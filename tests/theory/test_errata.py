"""Errata 4 and 5: the printed statement fails on numbers, ours does not.

Quadratics of one parameter, ½ a (θ − c)², make everything exact. The centre μ* of two of them is their mid-point, the
balanced mixture; its distance from each is half of theirs, so that the bounds with a factor ½ are attained.
"""

import math

import numpy as np
import pytest

from momentalign.theory import many_source_bounds, mixture_transfer, taylor_bound, transfer_measures
from tests.theory.problems import quadratics

RADIUS = 1.0


def test_theorem_under_irm() -> None:
    """Printed: max Σ δ^{n/2}/n! ‖∇ⁿL_j − ∇ⁿL_i‖ⁿ. True: no exponent n, and a factor ½."""
    small = 0.1
    losses = quadratics([1.0, 1.0 + small], [0.0, 0.0])
    measures = transfer_measures(losses, [[0.0]], RADIUS)
    # From the centre to the steeper domain.
    transfer = mixture_transfer(losses, [0.5, 0.5], [0.0, 1.0], [[0.0]], RADIUS)
    assert transfer == pytest.approx(small / 4, abs=1e-6)
    bound = taylor_bound(losses, [[0.0]], RADIUS, measures.minima, order=2, form="irm")
    printed = RADIUS**2 / 2 * small**2
    assert printed < transfer - 0.01
    assert bound.center == pytest.approx(transfer, abs=1e-6)
    # Without the exponent and without the ½ the statement would hold, at twice what the proof gives.
    assert RADIUS**2 / 2 * small == pytest.approx(2 * bound.center, abs=1e-6)


def test_corollary_without_irm() -> None:
    """Printed: the gradient term is ‖∇L_j − ∇L_j‖, which is zero. True: ‖∇L_j − ∇L_i‖."""
    losses = quadratics([1.0, 1.0], [-0.5, 0.5])
    measures = transfer_measures(losses, [[0.0]], RADIUS)
    transfer = mixture_transfer(losses, [0.5, 0.5], [0.0, 1.0], [[0.0]], RADIUS)
    gaps = losses.values([[0.0]]) - measures.minima
    gradient = losses.gradients([[0.0]])[1]
    printed = (gaps[1] - gaps[0] + RADIUS * float((gradient - gradient).norm())) / 2
    # The centre of two parabolas of the same curvature: T(μ*‖μ_j) is half the pair's, plus its own optimality gap.
    own_gap = many_source_bounds(losses, measures).gap
    assert printed == pytest.approx(0, abs=1e-6)
    assert transfer - own_gap == pytest.approx(0.5, abs=1e-6)
    assert taylor_bound(losses, [[0.0]], RADIUS, measures.minima, order=2).center == pytest.approx(0.5, abs=1e-6)


def test_proof_adds_the_gaps_and_drops_the_gradients() -> None:
    """Printed: ½ max (gap_j + gap_i + Σ_{n ≥ 2} …). True: ½ max (gap_j − gap_i + Σ_{n ≥ 1} …)."""
    losses = quadratics([1.0, 1.0], [-0.5, 0.5])
    measures = transfer_measures(losses, [[0.0]], RADIUS)
    gaps = losses.values([[0.0]]) - measures.minima
    printed = (gaps[0] + gaps[1]) / 2  # the curvatures agree, so n = 2 adds nothing
    half = measures.one_sided.max() / 2
    assert printed < half - 0.1
    assert taylor_bound(losses, [[0.0]], RADIUS, measures.minima, order=2).center == pytest.approx(half, abs=1e-6)
    # The expansion at the centre itself: its difference of gaps is an identity, their sum is not.
    uneven = quadratics([1.0, 2.0], [-0.5, 1.0])
    tiny = transfer_measures(uneven, [[0.0]], 1e-9)
    gaps = uneven.values([[0.0]]) - tiny.minima
    assert tiny.one_sided[0, 1] == pytest.approx(gaps[1] - gaps[0], abs=1e-6)
    assert abs(tiny.one_sided[0, 1] - (gaps[1] + gaps[0])) > 0.1


def test_source_and_target_are_not_exchanged() -> None:
    """Printed in the proofs: T(μ_j‖μ_i) = sup L_j − L_j* − (L_i − L_i*). By the definition that is T(μ_i‖μ_j)."""
    losses = quadratics([1.0, 3.0], [0.0, 0.0])
    one_sided = transfer_measures(losses, [[0.0]], RADIUS).one_sided
    thetas = np.linspace(-RADIUS, RADIUS, 201)
    gaps = np.array([losses.values([[theta]]) for theta in thetas])
    assert one_sided[0, 1] == pytest.approx((gaps[:, 1] - gaps[:, 0]).max(), abs=1e-6)
    assert one_sided[1, 0] == pytest.approx(0, abs=1e-6)
    assert one_sided[0, 1] == pytest.approx(1, abs=1e-6)


def test_half_does_not_hold_for_the_mixture_people_train_on() -> None:
    """Printed: T(S‖T) ≤ ½ max T. True of the balanced mixture: (K−1)/K max T + gap of the optima, attained here."""
    losses = quadratics([2.0, 1.0, 1.0], [0.0, 0.0, 0.0])
    measures = transfer_measures(losses, [[0.0]], RADIUS)
    bounds = many_source_bounds(losses, measures)
    transfer = mixture_transfer(losses, [1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0], [[0.0]], RADIUS)
    assert transfer == pytest.approx(2 / 3 * measures.one_sided.max(), abs=1e-6)
    assert transfer > bounds.center_one_sided + 0.05
    assert transfer <= bounds.mixture_one_sided + 1e-9
    assert bounds.mixture_one_sided == pytest.approx(transfer, abs=1e-6)


def test_a_value_of_the_sine() -> None:
    """Printed: sin(−0.5) = −√2/2. True: about −0.479; it is still negative, so the counter-example stands."""
    assert abs(math.sin(-0.5) + math.sqrt(2) / 2) > 0.2
    assert math.sin(-0.5) == pytest.approx(-0.4794, abs=1e-4)
    assert math.sin(-math.pi / 4) == pytest.approx(-math.sqrt(2) / 2)
    assert math.sin(-0.5) < math.sin(0)
