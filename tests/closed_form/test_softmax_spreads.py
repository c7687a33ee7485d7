import pytest
import torch
from torch import Tensor

from momentalign import closed_form


def problem(n: int, d: int, C: int, K: int, scale: float = 1.0) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(n + C)
    features = torch.randn(n, d, dtype=torch.float64, generator=generator)
    logits = scale * torch.randn(n, C, dtype=torch.float64, generator=generator)
    targets = torch.randint(C, (n,), generator=generator)
    domains = torch.randint(K, (n,), generator=generator) * 5 - 3
    return features.requires_grad_(), logits.requires_grad_(), targets, domains


def by_definition(features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, bias: bool) -> list[Tensor]:
    residuals = closed_form.SoftmaxResiduals(logits, targets)
    return closed_form.gram_statistics(["spread"], [1, 2], residuals, features, domains, bias)["spread"]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", [(12, 4, 3, 2), (30, 5, 7, 4), (9, 3, 2, 3), (7, 20, 40, 1)])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_values_and_gradients_are_those_of_the_separate_functions(size, scale, bias):
    features, logits, targets, domains = problem(*size, scale)
    expected = by_definition(features, logits, targets, domains, bias)
    found = closed_form.softmax_spreads(features, logits, targets, domains, bias)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)
    for weights in ((1.0, 0.0), (0.0, 1.0), (2.0, 0.7)):
        total = sum(w * value for w, value in zip(weights, found, strict=True))
        reference = sum(w * value for w, value in zip(weights, expected, strict=True))
        ours = torch.autograd.grad(total, (features, logits), retain_graph=True)
        theirs = torch.autograd.grad(reference, (features, logits), retain_graph=True)
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-13)


def test_one_of_the_two_may_be_left_out_of_the_loss():
    features, logits, targets, domains = problem(12, 4, 3, 2)
    for order in (0, 1):
        ours = closed_form.softmax_spreads(features, logits, targets, domains, True)[order]
        theirs = by_definition(features, logits, targets, domains, True)[order]
        for one, other in zip(
            torch.autograd.grad(ours, (features, logits)), torch.autograd.grad(theirs, (features, logits)), strict=True
        ):
            torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-13)


def test_second_derivatives_exist():
    features, logits, targets, domains = problem(6, 2, 3, 2)

    def total(features: Tensor, logits: Tensor) -> Tensor:
        gradient, hessian = closed_form.softmax_spreads(features, logits, targets, domains, True)
        return gradient + 0.5 * hessian

    assert torch.autograd.gradcheck(total, (features, logits))
    assert torch.autograd.gradgradcheck(total, (features, logits))


@pytest.mark.parametrize("wanted", [0, 1])
def test_only_what_is_asked_for_gets_a_gradient(wanted):
    features, logits, targets, domains = problem(12, 4, 3, 2)
    inputs = [features.detach(), logits.detach()]
    inputs[wanted].requires_grad_()
    sum(closed_form.softmax_spreads(*inputs, targets, domains, True)).backward()
    assert inputs[wanted].grad.abs().sum() > 0
    assert inputs[1 - wanted].grad is None


def test_a_sure_and_right_prediction_keeps_its_digits():
    features, _, targets, domains = problem(12, 4, 3, 2)
    logits = 40.0 * torch.nn.functional.one_hot(targets, 3).double()
    logits = (logits + torch.randn(12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).detach()
    exact = closed_form.softmax_spreads(features, logits, targets, domains, True)
    single = closed_form.softmax_spreads(features.float(), logits.float(), targets, domains, True)
    for one, other in zip(single, exact, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=0)
