"""The Taylor bound against measured transfer.

The bound leaves out a term o(δ^{N/2}). Two ways to control it: the remainder that the package computes, with which the
bound has to hold at any radius; and a radius so small that the remainder is a small part of the bound. At order 1 the
linear term is attained by the supremum, so the term left out may have either sign and the remainder has to be added at
any radius. From order 2 on Frobenius norms and the sum of suprema leave room of the size of the last term, and with a
small radius that room is larger than what is left out: the bound then holds as it stands.
"""

import numpy as np
import pytest
import torch

from momentalign.theory import DomainLosses, pareto_point, taylor_bound, transfer_measures
from momentalign.theory._minimize import domain_minimizers
from tests.theory.problems import LOSSES, make_losses, random_head, reference_derivatives

pytestmark = pytest.mark.slow

SMALL, LARGE = 0.02, 1.0


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_holds_on_random_softmax_problems(first: int) -> None:
    for seed in range(first, first + 50):
        losses = make_losses(seed=seed, K=2 + seed % 2, rows=8)
        center = pareto_point(losses, restarts=0).head
        heads = domain_minimizers(losses)
        norms = {r: losses.derivative_norms(r, center) for r in (1, 2, 3)}
        for radius in (SMALL, LARGE):
            measures = transfer_measures(losses, center, radius, restarts=2, minimizers=heads)
            off = ~np.eye(len(losses), dtype=bool)
            for order in (1, 2, 3):
                for form in ("full", "g"):
                    bound = taylor_bound(
                        losses, center, radius, measures.minima, order=order, form=form, distances=norms
                    )
                    assert (measures.one_sided <= bound.pairs + bound.remainder + 1e-9).all()
                    assert measures.one_sided.max() / 2 <= bound.center_with_remainder + 1e-9
                    if radius == SMALL and order > 1:
                        assert (measures.one_sided <= bound.pairs + 1e-12)[off].all()
                        assert measures.one_sided.max() / 2 <= bound.center + 1e-12


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_terms_against_dense_tensors(loss: str, order: int) -> None:
    losses = make_losses(loss, rows=6)
    head, radius, minima = random_head(losses), 0.7, np.array([0.1, 0.2, 0.3])
    values = losses.values(head)
    expected = values[None, :] - minima[None, :] - (values - minima)[:, None]
    without_first = np.zeros((3, 3))
    for r in range(1, order + 1):
        tensors = reference_derivatives(r, losses, head)
        term = radius**r / [1, 1, 2, 6][r] * torch.cdist(tensors, tensors).numpy()
        expected = expected + term
        without_first = without_first + (term if r > 1 else 0)
    found = {form: taylor_bound(losses, head, radius, minima, order=order, form=form) for form in ("full", "g", "irm")}
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(found["full"].pairs[off], expected[off], atol=1e-7)
    np.testing.assert_allclose(found["irm"].pairs[off], without_first[off], atol=1e-7)
    g = losses.gradients(head).flatten(1).norm(dim=1).max().item()
    first = radius * torch.cdist(*[reference_derivatives(1, losses, head)] * 2).numpy()
    np.testing.assert_allclose(found["g"].pairs[off], (expected - first + 2 * radius * g)[off], atol=1e-7)
    assert (found["full"].pairs <= found["g"].pairs + 1e-9)[off].all()
    assert found["full"].center == pytest.approx(expected[off].max() / 2)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_remainder_covers_what_the_expansion_leaves_out(loss: str, order: int) -> None:
    """Against the expansion itself, with the tensors applied to the step, at random steps of every length."""
    losses = make_losses(loss, rows=6, K=2)
    center = random_head(losses)
    tensors = [reference_derivatives(r, losses, center) for r in range(1, order + 1)]
    for seed in range(20):
        step = random_head(losses, seed + 1)
        radius = float(step.norm())
        left = losses.values(center + step) - losses.values(center)
        powers = step.flatten()
        for r, tensor in enumerate(tensors, 1):
            left = left - (tensor @ powers).numpy() / [1, 1, 2, 6][r]
            powers = torch.outer(powers, step.flatten()).flatten()
        remainder = taylor_bound(losses, center, radius, np.zeros(2), order=order).remainder
        # The L2 term is the same in both domains.
        assert abs(left[1] - left[0]) <= remainder[0, 1] + 1e-9


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
    full, short = (taylor_bound(losses, center, 0.5, measures.minima, order=2, form=form) for form in ("full", "irm"))
    np.testing.assert_allclose(full.pairs, short.pairs, atol=1e-7)
    assert (measures.one_sided <= short.pairs + 1e-9).all()


def test_bad_settings() -> None:
    losses = make_losses()
    head = random_head(losses)
    with pytest.raises(ValueError, match="'order' should be 1, 2 or 3, but is 4"):
        taylor_bound(losses, head, 1.0, np.zeros(3), order=4)
    with pytest.raises(ValueError, match=r"'form' should be one of 'full', 'g', 'irm', but is 'IRM'"):
        taylor_bound(losses, head, 1.0, np.zeros(3), form="IRM")
