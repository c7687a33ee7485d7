import pytest
import torch

from momentalign.functional import domain_derivatives
from momentalign.penalties import HGP, IRM, GradientMatching, Hutchinson
from momentalign.theory import DomainLosses, gradient_connections, hessian_connections
from tests.theory.problems import make_losses, random_head, reference_derivatives


def test_gradient_identities() -> None:
    """Spread = IRM − ‖mean‖², and the objective of inner products is (K−1)/K² ‖Σ g‖² below it."""
    losses = make_losses()
    gradients = reference_derivatives(1, losses, random_head(losses))
    found = gradient_connections(gradients @ gradients.T)
    mean = gradients.mean(0)
    assert found.spread == pytest.approx(float((gradients - mean).square().sum(1).mean()))
    assert found.irm == pytest.approx(float(gradients.square().sum(1).mean()))
    assert found.mean == pytest.approx(float(mean.square().sum()))
    assert found.spread == pytest.approx(found.irm - found.mean)
    total = gradients.sum(0).square().sum()
    assert found.inner_products == pytest.approx(float((gradients.square().sum() - total) / 3))
    assert found.spread - found.inner_products == pytest.approx(float(2 / 9 * total))


def test_they_are_the_penalties() -> None:
    losses = make_losses()
    head = random_head(losses)
    batch = losses.features, losses.inputs @ head.T, losses.targets, losses.domains
    found = gradient_connections(losses.gram(1, head))
    assert found.spread == pytest.approx(GradientMatching().terms(*batch)["gradient"].item())
    assert found.irm == pytest.approx(next(iter(IRM(version="head").terms(*batch).values())).item())


def test_hessian_projections() -> None:
    """The diagonal and the product with a common gradient are projections of the full spread."""
    losses = make_losses(K=4)
    head = random_head(losses)
    batch = losses.features, losses.inputs @ head.T, losses.targets, losses.domains
    found = hessian_connections(losses, head)
    hessians = domain_derivatives(2, *batch)
    offsets = hessians - hessians.mean(0)
    gradient = losses.gradients(head).mean(0).flatten()
    assert found.full == pytest.approx(float(offsets.square().sum((1, 2)).mean()))
    assert found.diagonal == pytest.approx(float(offsets.diagonal(dim1=1, dim2=2).square().sum(1).mean()))
    assert found.diagonal == pytest.approx(Hutchinson().terms(*batch)["hessian"].item())
    assert found.along_mean_gradient == pytest.approx(float((offsets @ gradient).square().sum(1).mean()))
    assert found.diagonal <= found.full
    assert found.along_mean_gradient <= found.mean_gradient * found.full


def test_hgp_where_the_gradients_agree() -> None:
    """With one gradient g for all domains HGP's products differ by the Hessians alone: (H_e − H̄)g."""
    # At the head 0 with one label for all the gradient is a constant times the mean of the features, and the Hessian
    # their second moment: the same mean and another spread.
    features = torch.tensor([[1.0], [1.0], [-1.0], [3.0]], dtype=torch.float64)
    losses = DomainLosses(torch.cat([features, features]), [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1] * 2, bias=False)
    losses.targets = torch.zeros_like(losses.targets)
    head = torch.zeros(2, 1, dtype=torch.float64)
    batch = losses.features, losses.inputs @ head.T, losses.targets, losses.domains
    terms = HGP(bias=False).terms(*batch)
    found = hessian_connections(losses, head)
    assert terms["gradient"].item() == pytest.approx(0, abs=1e-15)
    assert terms["hessian"].item() == pytest.approx(found.along_mean_gradient)
    assert 0.1 < found.along_mean_gradient <= found.mean_gradient * found.full * (1 + 1e-12)
