from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from momentalign.closed_form import HEADS, SoftmaxResiduals, _product_spreads, product_spreads
from tests.closed_form.test_heads import saturated_logits
from tests.kernels import DEVICE, needs_device
from tests.references import LABELS, make_batch

Inputs = tuple[Tensor, Tensor, Tensor, Tensor]


def problem(n: int, d: int, C: int, K: int, scale: float = 1.0) -> Inputs:
    features, logits, targets, domains = make_batch("cross_entropy", n, d, C, domains=(*LABELS, 11)[:K]).inputs
    return features.requires_grad_(), (scale * logits).requires_grad_(), targets, domains


def spreads(inputs: Inputs, bias: bool) -> tuple[Tensor, Tensor]:
    return product_spreads(SoftmaxResiduals, *inputs, bias=bias)


def in_domain_space(inputs: Inputs, bias: bool) -> tuple[Tensor, Tensor]:
    """Gradients and products as tensors of the head's size, one a domain."""
    features, logits, targets, domains = inputs
    X = torch.cat([features, torch.ones_like(features[:, :1])], 1) if bias else features
    residuals = SoftmaxResiduals(logits, targets)
    gradients, products = [], []
    for label in domains.unique():
        rows = domains == label
        G = residuals.gradient[rows].T @ X[rows] / rows.sum()
        gradients.append(G)
        products.append(residuals.hessian_times(X @ G.T)[rows].T @ X[rows] / rows.sum())
    g, v = torch.stack(gradients), torch.stack(products)
    return (g - g.mean(0)).square().sum((1, 2)).mean(), (v - v.mean(0)).square().sum((1, 2)).mean()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", [(12, 4, 3, 2), (21, 5, 7, 3), (9, 3, 2, 3), (7, 20, 40, 2)], ids=str)
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_spreads_are_those_of_the_domains_tensors(size: tuple[int, ...], scale: float, bias: bool) -> None:
    inputs = problem(*size, scale)
    ways = [way(inputs, bias) for way in (spreads, in_domain_space)]
    for weights in ((1.0, 0.0), (0.0, 1.0), (2.0, 0.7)):
        totals = [sum(w * value for w, value in zip(weights, values, strict=True)) for values in ways]
        found, *others = ([total, *torch.autograd.grad(total, inputs[:2], retain_graph=True)] for total in totals)
        for other in others:
            for one, expected in zip(found, other, strict=True):
                torch.testing.assert_close(one, expected, rtol=1e-10, atol=1e-12 * expected.abs().max().item())


def test_second_derivatives() -> None:
    features, logits, *rest = problem(6, 2, 3, 2)

    def total(features: Tensor, logits: Tensor) -> Tensor:
        gradient, hessian = spreads((features, logits, *rest), True)
        return gradient + 0.5 * hessian

    assert torch.autograd.gradcheck(total, (features, logits))
    assert torch.autograd.gradgradcheck(total, (features, logits))


@pytest.mark.parametrize("wanted", [0, 1])
def test_only_what_is_asked_for_gets_a_gradient(wanted: int) -> None:
    features, logits, targets, domains = problem(12, 4, 3, 2)
    inputs = [features.detach(), logits.detach()]
    inputs[wanted].requires_grad_()
    sum(spreads((*inputs, targets, domains), True)).backward()
    assert inputs[wanted].grad.abs().sum() > 0
    assert inputs[1 - wanted].grad is None


@pytest.mark.parametrize("off", [0, 1], ids=["right", "wrong"])
def test_saturated_predictions_keep_their_digits(off: int) -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(24, 4, dtype=torch.float64, generator=generator)
    targets, domains = (torch.arange(24) + off) % 4, torch.arange(24) % 2
    found = []
    for dtype in (torch.float32, torch.float64):
        x, z = features.to(dtype).requires_grad_(), saturated_logits(5).to(dtype).requires_grad_()
        gradient, hessian = spreads((x, z, targets, domains), True)
        assert hessian.item() > 0
        slopes = [torch.autograd.grad(value, (x, z), retain_graph=True) for value in (gradient, hessian)]
        found.append([gradient, hessian, *slopes[0], *slopes[1]])
    for single, exact in zip(*found, strict=True):
        assert (single.double() - exact).norm() <= 1e-4 * exact.norm()


def test_one_domain_is_exactly_zero() -> None:
    features, logits, targets, _ = (tensor.detach() for tensor in problem(21, 4, 3, 2))
    values = spreads((features.float(), logits.float(), targets, torch.full((21,), 8)), True)
    assert [value.item() for value in values] == [0, 0]


@pytest.fixture
def with_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels for all that is float32, also where Triton interprets them on the host."""
    monkeypatch.setattr(_product_spreads, "_can_fuse", lambda features, _: features.dtype == torch.float32)


@pytest.mark.parametrize(
    ("loss", "center", "fused"),
    [("cross_entropy", "mean", True), ("cross_entropy", "product", False), ("squared_error", "mean", False)],
)
def test_kernels_are_for_products_of_the_cross_entropy_around_their_mean(
    loss: str, center: str, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def apply(features: Tensor, *_: object) -> list[Tensor]:
        seen.append(True)
        return [features.sum()] * 5

    monkeypatch.setattr(_product_spreads, "_can_fuse", lambda features, logits: True)
    monkeypatch.setattr(_product_spreads, "_FusedProductSpreads", SimpleNamespace(apply=apply))
    product_spreads(HEADS[loss], *make_batch(loss, 6, 3, 2).inputs, bias=True, center=center)
    assert bool(seen) == fused


def in_both_precisions(features: Tensor, logits: Tensor, *rest: Tensor) -> list[Inputs]:
    """The same numbers in float32 and in float64."""
    single = [tensor.detach().float().to(DEVICE) for tensor in (features, logits)]
    others = [tensor.to(DEVICE) for tensor in rest]
    return [
        (*(tensor.to(dtype).requires_grad_() for tensor in single), *others) for dtype in (torch.float32, torch.float64)
    ]


def assert_near(found: Tensor, expected: Tensor, relative: float) -> None:
    assert found.isfinite().all()
    assert (found.double() - expected).norm() <= relative * expected.norm()


@needs_device
@pytest.mark.usefixtures("with_kernels")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", [(12, 4, 3, 2), (70, 5, 7, 4), (33, 3, 2, 3), (7, 20, 16, 1), (50, 6, 16, 2)], ids=str)
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_the_kernels_give_the_same(size: tuple[int, ...], scale: float, bias: bool) -> None:
    single, exact = in_both_precisions(*problem(*size, scale))
    found, expected = spreads(single, bias), spreads(exact, bias)
    for one, other in zip(found, expected, strict=True):
        assert_near(one, other, 2e-5)
    for weights in ((1.0, 0.0), (0.0, 1.0), (2.0, 0.7)):
        ours, theirs = (
            torch.autograd.grad(weights[0] * values[0] + weights[1] * values[1], of[:2], retain_graph=True)
            for values, of in ((found, single), (expected, exact))
        )
        for one, other in zip(ours, theirs, strict=True):
            assert_near(one, other, 2e-5)
    again = torch.autograd.grad(found[1], single[:2], create_graph=True)
    for one, other in zip(again, torch.autograd.grad(expected[1], exact[:2], retain_graph=True), strict=True):
        assert one.requires_grad
        assert_near(one.detach(), other, 2e-5)


@needs_device
@pytest.mark.usefixtures("with_kernels")
def test_the_kernels_take_any_strides_and_one_spread_alone() -> None:
    single, exact = in_both_precisions(*problem(20, 4, 3, 2))
    features, logits, targets, domains = single
    spread_out = [torch.stack([labels, labels - 1], 1)[:, 0] for labels in (targets, domains)]
    turned = [tensor.T.contiguous().T for tensor in (features, logits)]
    found, expected = spreads((*turned, *spread_out), True), spreads(exact, True)
    for order in (0, 1):
        assert_near(found[order], expected[order], 1e-5)
        ours, theirs = (
            torch.autograd.grad(values[order], of[:2], retain_graph=True)
            for values, of in ((found, single), (expected, exact))
        )
        for one, other in zip(ours, theirs, strict=True):
            assert_near(one, other, 1e-5)


@needs_device
@pytest.mark.usefixtures("with_kernels")
@pytest.mark.parametrize("off", [0, 1], ids=["right", "wrong"])
def test_the_kernels_keep_the_digits_of_sure_predictions(off: int) -> None:
    features = torch.randn(24, 4, generator=torch.Generator().manual_seed(0))
    labels = (torch.arange(24) + off) % 4, torch.arange(24) % 2
    single, exact = in_both_precisions(features, saturated_logits(5), *labels)
    for one, other in zip(spreads(single, True), spreads(exact, True), strict=True):
        assert other.item() > 0
        assert_near(one, other, 1e-4)
        ours, theirs = (
            torch.autograd.grad(value, of[:2], retain_graph=True) for value, of in ((one, single), (other, exact))
        )
        for mine, reference in zip(ours, theirs, strict=True):
            assert_near(mine, reference, 1e-4)


@needs_device
@pytest.mark.usefixtures("with_kernels")
def test_the_kernels_find_one_domain_exactly_zero() -> None:
    (features, logits, targets, _), _ = in_both_precisions(*problem(21, 4, 3, 2))
    values = spreads((features, logits, targets, torch.full((21,), 8, device=DEVICE)), True)
    assert [value.item() for value in values] == [0, 0]


def test_the_host_has_no_kernels() -> None:
    assert not _product_spreads._can_fuse(torch.zeros(2, 3), torch.zeros(2, 2))
