"""The gradient of CMA that is written by hand, against autograd through the sample Gram."""

from functools import partial

import pytest
import torch
from torch import Tensor

from momentalign import CMA, GradientMatching, HessianMatching
from momentalign.closed_form import SoftmaxResiduals, gram_spreads, weighted_spreads
from tests.references import assert_equal, make_batch

WEIGHTS = [(0.3, 2.1), (0.0, 2.1), (0.3, 0.0)]
every = pytest.mark.parametrize("weights", WEIGHTS, ids=str)


def by_autograd(weights: tuple[float, float], x: Tensor, z: Tensor, y: Tensor, e: Tensor, bias: bool = True) -> Tensor:
    (first, second), _ = gram_spreads([1, 2], SoftmaxResiduals(z, y), x, e, bias)
    return weights[0] * first + weights[1] * second


@every
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("C", [2, 5])
@pytest.mark.parametrize("scale", [1.0, 12.0])
def test_value_and_gradients(weights: tuple[float, float], bias: bool, C: int, scale: float) -> None:
    batch = make_batch("cross_entropy", d=4, C=C)
    x, z = batch.features.requires_grad_(), (scale * batch.logits).requires_grad_()
    total, *values = weighted_spreads(x, z, batch.targets, batch.domains, bias, weights)
    expected = by_autograd(weights, x, z, batch.targets, batch.domains, bias)
    assert_equal(total, expected, 1e-12)
    assert_equal(sum(w * v for w, v in zip(weights, values, strict=True)), expected, 1e-12)
    for mine, its in zip(*(torch.autograd.grad(value, (x, z)) for value in (total, expected)), strict=True):
        assert_equal(mine, its, 1e-12)


@every
@pytest.mark.parametrize("C", [2, 4])
def test_second_derivatives(weights: tuple[float, float], C: int) -> None:
    batch = make_batch("cross_entropy", n=5, C=C)
    x, z = batch.features.requires_grad_(), batch.logits.requires_grad_()
    assert torch.autograd.gradgradcheck(
        lambda x, z: weighted_spreads(x, z, batch.targets, batch.domains, True, weights)[0], (x, z)
    )


@every
@pytest.mark.parametrize(("C", "confidence"), [(2, 10.0), (2, 40.0), (7, 9.0), (7, 40.0), (65, 14.0)])
def test_a_sure_and_right_prediction_keeps_its_digits(weights: tuple[float, float], C: int, confidence: float) -> None:
    batch, found = make_batch("cross_entropy", n=48, d=8, C=C), []
    sure = torch.nn.functional.one_hot(batch.targets, C) * confidence + 0.3 * batch.logits
    for dtype in (torch.float32, torch.float64):
        x, z = batch.features.to(dtype).requires_grad_(), sure.float().to(dtype).requires_grad_()
        total, *_ = weighted_spreads(x, z, batch.targets, batch.domains, True, weights)
        found.append([tensor.detach().double() for tensor in (total, *torch.autograd.grad(total, (x, z)))])
    for mine, its in zip(*found, strict=True):
        assert_equal(mine, its, 1e-5)


def test_function_transforms_take_the_general_path() -> None:
    batch = make_batch("cross_entropy", n=9)
    x, z = batch.features.requires_grad_(), batch.logits.requires_grad_()
    penalty = CMA(validate=False).eval()
    inputs = batch.targets, batch.domains
    (expected,) = torch.autograd.grad(penalty(x, z, *inputs), z)
    assert_equal(torch.func.grad(lambda logits: penalty(x, logits, *inputs))(z.detach()).detach(), expected)
    together = torch.func.vmap(lambda scale: penalty(x, scale * z, *inputs))(torch.ones(2, dtype=torch.float64))
    assert_equal(together, penalty(x, z, *inputs).expand(2))


@pytest.mark.parametrize("make", [CMA, GradientMatching, HessianMatching, partial(CMA, scaling="classes")])
def test_the_penalties_take_it(make: partial[CMA]) -> None:
    features, logits, targets, domains = make_batch("cross_entropy").inputs
    value = make()(features.requires_grad_(), logits.requires_grad_(), targets, domains)
    assert value.grad_fn.name() in ("_WeightedSpreadsBackward", "torch::autograd::_WeightedSpreadsBackward")
    with torch.no_grad():
        assert_equal(make()(features, logits, targets, domains), value.detach(), 1e-12)
