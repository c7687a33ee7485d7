from typing import Any

import pytest
import torch
from torch import Tensor

from momentalign.closed_form import _variance_spread, variance_spread
from tests.kernels import DEVICE, needs_device

Problem = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def problem(sizes: tuple[int, ...], d: int, C: int, bias: bool) -> Problem:
    """Residuals, features, domains, their labels and a past; sizes may be zero."""
    generator = torch.Generator().manual_seed(d)
    labels = torch.arange(len(sizes)) * 2**33 - 3
    domains = torch.repeat_interleave(labels, torch.tensor(sizes))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    n = sum(sizes)
    domains = domains[torch.randperm(n, generator=generator)]
    past = normal(len(sizes), C * (d + bias)).abs()
    return normal(n, C).requires_grad_(), normal(n, d).requires_grad_(), domains, labels, past


def plainly(
    R: Tensor, X: Tensor, domains: Tensor, labels: Tensor, past: Tensor | None, decay: float, bias: bool
) -> Tensor:
    """Domain by domain, from the samples' gradients."""
    X = torch.cat([X, torch.ones_like(X[:, :1])], 1) if bias else X
    gradients = (R[:, :, None] * X[:, None, :]).flatten(1)
    present = [e for e, label in enumerate(labels) if (domains == label).any()]
    values = torch.stack([gradients[domains == labels[e]].var(0, correction=0) for e in present])
    if past is not None:
        values = values + decay * past[present]
    return (values - values.mean(0)).square().mean()


cases = pytest.mark.parametrize("sizes", [(4, 4), (5, 1, 9), (3, 0, 6, 2), (2, 1, 0, 3, 1, 2)], ids=str)


@cases
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("with_past", [True, False])
@pytest.mark.parametrize(
    ("entries", "products"), [(2**22, 2**24), (0, 2**24), (0, 0)], ids=["about the mean", "by moments", "by rows"]
)
def test_value_and_gradients(
    sizes: tuple[int, ...], bias: bool, with_past: bool, entries: int, products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_variance_spread, "_ENTRIES", entries)
    monkeypatch.setattr(_variance_spread, "_PRODUCTS", products)
    R, X, domains, labels, past = problem(sizes, 4, 3, bias)
    before = past if with_past else None
    value, sums = variance_spread(R, X, domains, labels, before, 0.9, bias)
    expected = plainly(R, X, domains, labels, before, 0.9, bias)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
    ours, theirs = (torch.autograd.grad(3 * each, (R, X)) for each in (value, expected))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-14)
    assert not sums.requires_grad
    missing = [e for e, size in enumerate(sizes) if size == 0]
    torch.testing.assert_close(sums[missing], (0.9 * past if with_past else 0 * past)[missing], rtol=1e-14, atol=0)


@cases
def test_second_derivatives(sizes: tuple[int, ...]) -> None:
    R, X, domains, labels, past = problem(sizes, 2, 2, True)

    def value(R: Tensor, X: Tensor) -> Tensor:
        return variance_spread(R, X, domains, labels, past, 0.5, True)[0]

    assert torch.autograd.gradcheck(value, (R, X))
    assert torch.autograd.gradgradcheck(value, (R, X))


def test_second_derivatives_after_the_past_was_written_over() -> None:
    found = []
    for changes in (False, True):
        R, X, domains, labels, past = problem((3, 4), 2, 2, True)
        value, _ = variance_spread(R, X, domains, labels, past, 0.5, True)
        if changes:
            past.zero_()
        (slope,) = torch.autograd.grad(value, X, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), (R, X)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=0)


def test_one_domain_is_exactly_zero() -> None:
    R, X, domains, labels, past = problem((0, 7, 0), 4, 3, True)
    R, X, past = (tensor.detach().float() for tensor in (R, X, past))
    value, _ = variance_spread(R.requires_grad_(), X, domains, labels, past, 0.9, True)
    assert value.item() == 0
    assert not torch.autograd.grad(value, R)[0].any()


@pytest.mark.parametrize("wanted", [0, 1])
def test_only_what_is_asked_for_gets_a_gradient(wanted: int) -> None:
    R, X, domains, labels, past = problem((4, 4), 4, 3, True)
    inputs = [R.detach(), X.detach()]
    inputs[wanted].requires_grad_()
    variance_spread(*inputs, domains, labels, past, 0.9, True)[0].backward()
    assert inputs[wanted].grad.abs().sum() > 0
    assert inputs[1 - wanted].grad is None


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_variance_spread, "_can_fuse", lambda residuals, *_: residuals.dtype == torch.float32)


def single_and_double(sizes: tuple[int, ...], d: int, C: int, bias: bool) -> tuple[list[Tensor], ...]:
    """The same residuals and features in two precisions, and domains, labels and past."""
    R, X, *others = (tensor.detach().to(DEVICE) for tensor in problem(sizes, d, C, bias))
    single = [tensor.float().requires_grad_() for tensor in (R, X)]
    return single, [tensor.detach().double().requires_grad_() for tensor in single], others


def assert_near(found: Tensor, expected: Tensor) -> None:
    assert found.shape == expected.shape
    assert (
        found.double() - expected
    ).norm() <= 1e-4 * expected.norm() + 1e-7  # where variances are zero, rounding is left


@needs_device
@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("with_past", [True, False])
@pytest.mark.parametrize(
    ("sizes", "d", "C"),
    [((9, 3), 4, 1), ((64, 64), 128, 2), ((20, 0, 31, 19), 33, 7), ((3,) * 16, 15, 16), ((1, 1), 3, 3)],
    ids=str,
)
def test_the_kernels_give_the_same(sizes: tuple[int, ...], d: int, C: int, bias: bool, with_past: bool) -> None:
    single, double, (domains, labels, past) = single_and_double(sizes, d, C, bias)
    past = past.float()
    kept = past.clone()
    found, sums = variance_spread(*single, domains, labels, past if with_past else None, 0.9, bias)
    expected, reference = variance_spread(*double, domains, labels, past.double() if with_past else None, 0.9, bias)
    assert torch.equal(past, kept)
    past.zero_()
    assert_near(found, expected)
    assert_near(sums, reference)
    assert not sums.requires_grad
    ours, theirs = (
        torch.autograd.grad(3 * value, of, retain_graph=True) for value, of in ((found, single), (expected, double))
    )
    for one, other in zip(ours, theirs, strict=True):
        assert_near(one, other)


@needs_device
@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("bias", [True, False])
def test_the_kernels_take_many_columns_in_spans(bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_variance_spread, "_SPAN", 128)
    single, double, others = single_and_double((5, 8), 384, 3, bias)
    single, double = (
        torch.autograd.grad(variance_spread(*of, *others[:2], None, 0.9, bias)[0], of) for of in (single, double)
    )
    for one, other in zip(single, double, strict=True):
        assert_near(one, other)


@needs_device
@pytest.mark.usefixtures("fused")
def test_the_kernels_take_views_and_samples_of_no_known_domain() -> None:
    single, double, (domains, labels, past) = single_and_double((6, 5, 7), 9, 4, True)
    wide = torch.stack([domains, domains], 1)[:, 0]
    found = []
    for of in (single, double):
        inputs = [tensor.T.contiguous().T for tensor in of]
        value, _ = variance_spread(*inputs, wide, labels[:2], past[:2].to(inputs[0]), 0.9, True)
        found.append((value, *torch.autograd.grad(value, of)))
    for one, other in zip(*found, strict=True):
        assert_near(one, other)
    assert not found[0][1][domains == labels[2]].any()


@needs_device
@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("sizes", [(7,), (0, 7, 0)], ids=str)
def test_the_kernels_give_exactly_zero_for_one_domain(sizes: tuple[int, ...]) -> None:
    single, _, (domains, labels, past) = single_and_double(sizes, 20, 3, True)
    value, _ = variance_spread(*single, domains, labels, past.float(), 0.9, True)
    assert value.item() == 0
    assert not any(slope.any() for slope in torch.autograd.grad(value, single))


@needs_device
@pytest.mark.usefixtures("fused")
def test_second_derivatives_behind_the_kernels() -> None:
    single, double, (domains, labels, past) = single_and_double((6, 0, 5), 4, 3, True)
    found = []
    for of in (single, double):
        value, _ = variance_spread(*of, domains, labels, past.to(of[0]), 0.9, True)
        slopes = torch.autograd.grad(value, of, create_graph=True)
        found.append(torch.autograd.grad(sum(slope.square().sum() for slope in slopes), of))
    for one, other in zip(*found, strict=True):
        assert_near(one, other)


def test_second_derivatives_behind_the_kernels_know_the_past(monkeypatch: pytest.MonkeyPatch) -> None:
    """On any device: the kernels' part, the value and the sums, is computed plainly."""
    R, X, domains, labels, past = problem((6, 0, 5), 4, 3, True)

    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        value, sums = variance_spread(*inputs)
        return value, sums, torch.zeros_like(sums), torch.zeros_like(sums)

    expected = plainly(R, X, domains, labels, past, 0.9, True)
    monkeypatch.setattr(_variance_spread._FusedVarianceSpread, "forward", staticmethod(forward))
    value, *_ = _variance_spread._FusedVarianceSpread.apply(R, X, domains, labels, past.clone(), 0.9, True)
    found = []
    for each in (value, expected):
        slopes = torch.autograd.grad(each, (R, X), create_graph=True)
        found.append((*slopes, *torch.autograd.grad(sum(slope.square().sum() for slope in slopes), (R, X))))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-14)


@needs_device
@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("wanted", [0, 1])
def test_the_kernels_give_only_the_gradient_that_is_asked_for(wanted: int) -> None:
    single, _, (domains, labels, past) = single_and_double((4, 4), 4, 3, True)
    inputs = [tensor.detach() for tensor in single]
    inputs[wanted].requires_grad_()
    variance_spread(*inputs, domains, labels, past.float(), 0.9, True)[0].backward()
    assert inputs[wanted].grad.abs().sum() > 0
    assert inputs[1 - wanted].grad is None


def test_the_host_has_no_kernels() -> None:
    assert not _variance_spread._can_fuse(torch.zeros(2, 2), torch.zeros(2, 3), torch.arange(2), None)
