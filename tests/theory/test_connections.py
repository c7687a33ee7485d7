"""How the penalties of the family relate: identities between them, from the domains' gradients and Hessians."""

import pytest
import torch

from momentalign.functional import domain_derivatives
from momentalign.penalties import HGP, IRM, GradientMatching, HessianMatching, Hutchinson
from tests.theory.problems import make_losses, random_head, reference_derivatives


def test_gradient_spread_irm_and_inner_products() -> None:
    """Spread = IRM's penalty − ‖mean gradient‖²; the GM objective lies (K−1)/K² ‖Σ g_e‖² below it."""
    losses = make_losses()
    head = random_head(losses)
    batch = losses.features, losses.inputs @ head.T, losses.targets, losses.domains
    gradients = reference_derivatives(1, losses, head)
    K, squares, total = 3, gradients.square().sum(), gradients.sum(0).square().sum()
    spread = GradientMatching().terms(*batch)["gradient"].item()
    (irm,) = IRM(version="head").terms(*batch).values()
    assert irm.item() == pytest.approx(float(squares / K))
    assert spread == pytest.approx(float(irm - gradients.mean(0).square().sum()))
    inner_products = float((squares - total) / K)
    assert spread - inner_products == pytest.approx(float((K - 1) / K**2 * total))


def test_diagonal_and_product_are_projections_of_the_hessian_spread() -> None:
    losses = make_losses(K=4)
    head = random_head(losses)
    batch = losses.features, losses.inputs @ head.T, losses.targets, losses.domains
    hessians = domain_derivatives(2, *batch)
    offsets = hessians - hessians.mean(0)
    gradient = losses.gradients(head).mean(0).flatten()
    full = HessianMatching().terms(*batch)["hessian"].item()
    diagonal = Hutchinson().terms(*batch)["hessian"].item()
    assert full == pytest.approx(float(offsets.square().sum((1, 2)).mean()))
    assert diagonal == pytest.approx(float(offsets.diagonal(dim1=1, dim2=2).square().sum(1).mean()))
    assert diagonal <= full
    assert float((offsets @ gradient).square().sum(1).mean()) <= float(gradient.square().sum()) * full


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
    assert terms["gradient"].item() == pytest.approx(0, abs=1e-15)
    assert terms["hessian"].item() == pytest.approx(float(expected))
    assert float(expected) > 0.1
