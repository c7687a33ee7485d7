"""Special cases, and how the penalties of the family relate."""

import pytest
import torch

from momentalign import CMA, HGP, IRM, GradientMatching, HessianMatching, Hutchinson, MomentAlignment
from momentalign.functional import domain_derivatives
from tests.references import assert_equal, dense_derivatives, dense_spread, linear, make_batch

LOSS = "cross_entropy"


@pytest.mark.parametrize("options", [{}, {"scaling": "relative"}, {"momentum": 0.5}, {"route": "direct"}], ids=str)
def test_special_cases(options: dict[str, object]) -> None:
    inputs = make_batch(LOSS).inputs
    gradient, hessian = GradientMatching(2.0, **options), HessianMatching(3.0, **options)
    assert list(gradient.terms(*inputs)) == ["gradient"]
    assert list(hessian.terms(*inputs)) == ["hessian"]
    assert_equal(CMA(2.0, 0.0, **options)(*inputs), gradient(*inputs))
    assert_equal(CMA(0.0, 3.0, **options)(*inputs), hessian(*inputs))
    together = MomentAlignment({1: 2.0, 2: 3.0}, **options)(*inputs)
    assert_equal(CMA(2.0, 3.0, **options)(*inputs), together)


@pytest.mark.parametrize("make", [HGP, Hutchinson])
def test_gradient_term_is_gradient_matching(make: type[HGP | Hutchinson]) -> None:
    inputs = make_batch(LOSS).inputs
    assert_equal(make(2.0, 0.0)(*inputs), GradientMatching(2.0)(*inputs))


def test_terms_are_unweighted_and_named() -> None:
    batch = make_batch(LOSS)
    penalty = MomentAlignment({3: 5.0, 1: 0.0, 2: 2.0})
    terms = penalty.terms(*batch.inputs)
    assert list(terms) == ["order_3", "gradient", "hessian"]
    inputs = batch.features, batch.head, batch.targets, batch.domains
    for order, term in zip((3, 1, 2), terms.values(), strict=True):
        assert_equal(term, dense_spread(order, LOSS, *inputs))
    assert_equal(penalty(*batch.inputs), 5 * terms["order_3"] + 2 * terms["hessian"])
    assert MomentAlignment({1: 0.0, 2: 0})(*batch.inputs).item() == 0


def test_squared_error_has_nothing_past_the_second_order() -> None:
    assert MomentAlignment({3: 1.0}, loss="squared_error")(*make_batch("squared_error").inputs).item() == 0


def test_gradient_spread_irm_and_inner_products() -> None:
    """Spread = IRM's penalty − ‖mean gradient‖²; the GM objective lies (K−1)/K² ‖Σ g_e‖² below it."""
    batch = make_batch(LOSS)
    g = dense_derivatives(1, LOSS, batch.features, batch.head, batch.targets, batch.domains)
    K, spread, total = len(g), GradientMatching()(*batch.inputs), g.sum(0).square().sum()
    assert_equal(spread, IRM()(*batch.inputs) - total / K**2)
    assert_equal(spread - (g.square().sum() - total) / K, (K - 1) / K**2 * total)
    pairs = sum((g[e] - g[f]).square().sum() for e in range(K) for f in range(e))
    assert_equal(spread, pairs / K**2)


def test_diagonal_and_products_are_projections_of_the_hessian_spread() -> None:
    batch = make_batch(LOSS)
    hessians = domain_derivatives(2, *batch.inputs)
    offsets, gradient = hessians - hessians.mean(0), domain_derivatives(1, *batch.inputs).mean(0).flatten()
    full, diagonal = HessianMatching()(*batch.inputs), Hutchinson(0.0)(*batch.inputs)
    assert_equal(full, offsets.square().sum((1, 2)).mean())
    assert_equal(diagonal, offsets.diagonal(dim1=1, dim2=2).square().sum(1).mean())
    assert diagonal < 0.9 * full
    assert (offsets @ gradient).square().sum(1).mean() <= gradient.square().sum() * full


def test_hgp_where_the_gradients_agree() -> None:
    """With one gradient g for all domains HGP's products differ by the Hessians alone: (H_e − H̄)g."""
    # At the head 0 with one label for all the gradient is a constant times the mean of the features, and the Hessian
    # their second moment: the same mean and another spread.
    features = torch.tensor([[1.0], [1.0], [-1.0], [3.0]], dtype=torch.float64)
    targets, domains = torch.zeros(4, dtype=torch.long), torch.tensor([0, 0, 1, 1])
    batch = features, torch.zeros(4, 2, dtype=torch.float64), targets, domains
    terms = HGP(bias=False).terms(*batch)
    hessians = domain_derivatives(2, *batch, bias=False)
    gradient = domain_derivatives(1, *batch, bias=False).mean(0).flatten()
    expected = ((hessians - hessians.mean(0)) @ gradient).square().sum(1).mean()
    assert terms["gradient"].abs() < 1e-15
    assert_equal(terms["hessian"], expected)
    assert expected > 0.1


def test_gradient_matching_is_irm_where_the_mean_loss_is_least() -> None:
    batch = make_batch("squared_error", balance="balanced", n=15)
    X = torch.cat([batch.features, torch.ones(15, 1, dtype=torch.float64)], 1)
    logits = linear(batch.features, torch.linalg.lstsq(X, batch.targets).solution.T)
    inputs = batch.features, logits, batch.targets, batch.domains
    assert_equal(GradientMatching(loss="squared_error")(*inputs), IRM(loss="squared_error")(*inputs))


def test_both_vanish_at_a_common_optimum() -> None:
    batch = make_batch("squared_error")
    inputs = batch.features, batch.logits, batch.logits, batch.domains
    assert GradientMatching(loss="squared_error")(*inputs).item() == IRM(loss="squared_error")(*inputs).item() == 0
