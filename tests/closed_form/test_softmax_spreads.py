import pytest
import torch
from torch import Tensor

from momentalign import closed_form
from momentalign.closed_form import _softmax_spreads
from tests.kernels import DEVICE, needs_device


def problem(n: int, d: int, C: int, K: int, scale: float = 1.0) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(n + C)
    features = torch.randn(n, d, dtype=torch.float64, generator=generator)
    logits = scale * torch.randn(n, C, dtype=torch.float64, generator=generator)
    targets = torch.randint(C, (n,), generator=generator)
    domains = torch.randint(K, (n,), generator=generator) * 5 - 3
    return features.requires_grad_(), logits.requires_grad_(), targets, domains


def test_spreads_are_divided():
    inputs = problem(12, 4, 3, 2)
    residuals = closed_form.SoftmaxResiduals(*inputs[1:3])
    expected = closed_form.gram_statistics(["spread"], [1, 2], residuals, inputs[0], inputs[3], True)["spread"]
    found = closed_form.softmax_spreads(*inputs, True, (2.0, 3.0))
    assert [value.item() for value in found] == [(expected[0] / 2).item(), (expected[1] / 3).item()]


def test_a_sure_and_right_prediction_keeps_its_digits():
    features, _, targets, domains = problem(12, 4, 3, 2)
    logits = 40.0 * torch.nn.functional.one_hot(targets, 3).double()
    logits = (logits + torch.randn(12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).detach()
    exact = closed_form.softmax_spreads(features, logits, targets, domains, True)
    single = closed_form.softmax_spreads(features.float(), logits.float(), targets, domains, True)
    for one, other in zip(single, exact, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=0)


SIZES = [(12, 4, 3, 2), (70, 5, 7, 4), (33, 3, 2, 3), (7, 20, 16, 1), (20, 130, 2, 2), (32, 128, 2, 2)]


@needs_device
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_the_kernels_give_the_same(size, scale, bias, monkeypatch):
    monkeypatch.setattr(_softmax_spreads, "_can_fuse", lambda features, _: features.dtype == torch.float32)
    features, logits, targets, domains = (tensor.to(DEVICE) for tensor in problem(*size, scale))
    inputs = [tensor.detach().float().requires_grad_() for tensor in (features, logits)]
    exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
    found = closed_form.softmax_spreads(*inputs, targets, domains, bias, (2.0, 3.0))
    expected = closed_form.softmax_spreads(*exact, targets, domains, bias, (2.0, 3.0))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-6)
    for weights in ((1.0, 0.0), (0.0, 1.0), (2.0, 0.7)):
        ours, theirs = (
            torch.autograd.grad(weights[0] * values[0] + weights[1] * values[1], of, retain_graph=True)
            for values, of in ((found, inputs), (expected, exact))
        )
        for one, other in zip(ours, theirs, strict=True):
            assert (one.double() - other).norm() <= 1e-4 * other.norm() + 1e-6
    single = torch.autograd.grad(found[1], inputs[1], retain_graph=True)
    both = torch.autograd.grad(found[1], inputs, create_graph=True)
    torch.testing.assert_close(
        single[0], both[1].detach(), rtol=1e-3, atol=1e-4 * float(both[1].detach().abs().max()) + 1e-7
    )


@needs_device
def test_the_kernels_keep_the_digits_of_a_sure_prediction(monkeypatch):
    monkeypatch.setattr(_softmax_spreads, "_can_fuse", lambda features, _: features.dtype == torch.float32)
    features, _, targets, domains = problem(40, 4, 3, 2)
    logits = 40.0 * torch.nn.functional.one_hot(targets, 3).double()
    logits = (logits + torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).detach()
    inputs = [tensor.detach().to(DEVICE) for tensor in (features, logits)]
    single = [tensor.float().requires_grad_() for tensor in inputs]
    exact = [tensor.float().double().requires_grad_() for tensor in inputs]
    others = (targets.to(DEVICE), domains.to(DEVICE), True)
    for one, other in zip(
        closed_form.softmax_spreads(*single, *others), closed_form.softmax_spreads(*exact, *others), strict=True
    ):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=0)
        ours, theirs = (
            torch.autograd.grad(value, of, retain_graph=True) for value, of in ((one, single), (other, exact))
        )
        for mine, reference in zip(ours, theirs, strict=True):
            assert (mine.double() - reference).norm() <= 1e-3 * reference.norm()


def test_the_host_has_no_kernels():
    assert not _softmax_spreads._can_fuse(torch.zeros(2, 3), torch.zeros(2, 2))
