import pytest
import torch
from torch import Tensor

from momentalign import HGP, GradientMatching
from tests.penalties.agreement import assert_agrees
from tests.references import CASES, Case, assert_equal, domain_losses, make_batch


def gradient(value: Tensor, head: Tensor) -> Tensor:
    return torch.autograd.grad(value, head, create_graph=True)[0]


def product(loss: Tensor, head: Tensor) -> Tensor:
    """Hessian times gradient is the gradient of ½‖gradient‖²."""
    return gradient(gradient(loss, head).square().sum() / 2, head)


@pytest.mark.parametrize("center", ["mean", "product"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_value_and_gradients_by_double_back_propagation(case: Case, center: str) -> None:
    def reference(features: Tensor, head: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
        losses = domain_losses(case.loss, features, head, targets, domains)
        g = torch.stack([gradient(loss, head) for loss in losses])
        v = torch.stack([product(loss, head) for loss in losses])
        middle = v.mean(0) if center == "mean" else product(losses.mean(), head).detach()
        return 0.5 * (g - g.mean(0)).square().sum((1, 2)).mean() + 3 * (v - middle).square().sum((1, 2)).mean()

    batch = make_batch(case.loss, balance=case.balance, bias=case.bias)
    assert_agrees(HGP(0.5, 3.0, center=center, loss=case.loss, bias=case.bias), reference, batch)


def test_gradient_term_is_gradient_matching() -> None:
    inputs = make_batch("cross_entropy").inputs
    assert_equal(HGP(2.0, 0.0)(*inputs), GradientMatching(2.0)(*inputs))


def test_unknown_center() -> None:
    with pytest.raises(ValueError, match=r"'center' should be one of 'mean', 'product', but is 'median'"):
        HGP(center="median")
