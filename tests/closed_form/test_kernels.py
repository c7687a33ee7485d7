"""The Triton kernels of CMA, with and without momentum, against plain operations in float64."""

import pytest
import torch
from torch import Tensor

from momentalign import _triton
from momentalign.closed_form import (
    SoftmaxResiduals,
    _cma,
    _cma_host,
    _decayed,
    blocks_shape,
    decayed_spreads,
    weighted_spreads,
)
from tests.kernels import DEVICE, large, needs_device

if _triton.AVAILABLE:
    import triton
    import triton.language as tl

    from momentalign.closed_form._cma_kernels import classes_of

    @triton.jit
    def store_classes(out, C: tl.constexpr):  # type: ignore[no-untyped-def]
        t = tl.arange(0, 256)
        a, b = classes_of(t, C)
        tl.store(out + t, a)
        tl.store(out + 256 + t, b)


DECAY = 0.9
WEIGHTS = [(1.0, 1e-12), (1e-12, 1.0), (2.0, 0.7)]


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cma, "can_fuse_spreads", lambda features, _: features.dtype == torch.float32)
    monkeypatch.setattr(_decayed, "can_fuse_decayed", lambda features, *_: features.dtype == torch.float32)


def batch(
    sizes: tuple[int, ...], d: int, C: int, scale: float = 1.0
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Features and logits in float32 and the same in float64; targets, domains and their labels. Sizes may be zero."""
    generator = torch.Generator().manual_seed(d)
    n, labels = sum(sizes), torch.arange(len(sizes)) * 2**33 - 3
    domains = torch.repeat_interleave(labels, torch.tensor(sizes))[torch.randperm(n, generator=generator)]
    targets = torch.randint(C, (n,), generator=generator)
    inputs = [torch.randn(n, d, generator=generator), scale * torch.randn(n, C, generator=generator)]
    single = [tensor.to(DEVICE).requires_grad_() for tensor in inputs]
    double = [tensor.detach().double().requires_grad_() for tensor in single]
    return single, double, [tensor.to(DEVICE) for tensor in (targets, domains, labels)]


def past_of(K: int, D: int, C: int) -> list[Tensor]:
    """Past sums in float32; Hessians are symmetric."""
    generator = torch.Generator().manual_seed(D)
    first, second = (
        torch.randn(K, *blocks_shape(order, SoftmaxResiduals, D, C), generator=generator) for order in (1, 2)
    )
    return [first.to(DEVICE), (second + second.mT).to(DEVICE)]


def decayed(of: list[Tensor], others: list[Tensor], past: list[Tensor] | None, bias: bool, overwrite: bool = False):  # type: ignore[no-untyped-def]
    before = [None, None] if past is None else [tensor if overwrite else tensor.to(of[0].dtype) for tensor in past]
    return decayed_spreads([1, 2], SoftmaxResiduals, *of, *others, before, DECAY, bias=bias, overwrite=overwrite)[1:]


def assert_near(found: Tensor, expected: Tensor, relative: float = 1e-4) -> None:
    assert found.shape == expected.shape
    assert (found.double() - expected).norm() <= relative * expected.norm() + 1e-7


@needs_device
@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("sizes", "d", "C"),
    [((6, 6), 4, 3), ((30, 9, 31), 5, 7), ((11, 22), 3, 2), ((7,), 20, 16), ((9, 11), 130, 2)],
    ids=str,
)
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_spreads(sizes: tuple[int, ...], d: int, C: int, scale: float, bias: bool) -> None:
    single, double, (targets, domains, _) = batch(sizes, d, C, scale)
    for weights in WEIGHTS:
        results = []
        for of in (single, double):
            total, *values = weighted_spreads(*of, targets, domains, bias, weights)
            slopes = torch.autograd.grad(total, of, retain_graph=True)
            again = torch.autograd.grad(total, of, create_graph=True)
            results.append((total, *values, *slopes, *again))
        for mine, its in zip(*results, strict=True):
            assert_near(mine, its)


@needs_device
@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize(
    ("sizes", "d", "C", "scale", "bias", "with_past"),
    [
        *(
            (*size, bias, with_past)
            for size in [((9, 3), 4, 2, 1.0), ((40, 30), 17, 2, 30.0), ((2, 0, 6), 3, 3, 1.0)]
            for bias in (True, False)
            for with_past in (True, False)
        ),
        ((16, 16), 64, 2, 30.0, True, True),  # columns in two passes
        ((16, 16), 64, 2, 30.0, False, False),  # rows and columns fill their tiles
        ((3, 0, 2), 16, 3, 1.0, True, False),
        ((2, 1), 3, 5, 30.0, True, True),
        pytest.param((1, 1), 3, 16, 1.0, True, True, marks=large),
    ],
    ids=str,
)
def test_decayed_spreads(sizes: tuple[int, ...], d: int, C: int, scale: float, bias: bool, with_past: bool) -> None:
    single, double, others = batch(sizes, d, C, scale)
    past = past_of(len(sizes), d + bias, C)
    kept = [tensor.clone() for tensor in past]
    found, sums = decayed(single, others, past if with_past else None, bias)
    expected, reference = decayed(double, others, past if with_past else None, bias)
    assert all(torch.equal(tensor, before) for tensor, before in zip(past, kept, strict=True))
    for mine, its in zip([*found, *sums], [*expected, *reference], strict=True):
        assert_near(mine, its)
    assert not any(total.requires_grad for total in sums)
    for tensor in (*past, *sums):
        tensor.zero_()  # the next batch overwrites them before backward
    for weights in WEIGHTS:
        ours, theirs = (
            torch.autograd.grad(weights[0] * values[0] + weights[1] * values[1], of, retain_graph=True)
            for values, of in ((found, single), (expected, double))
        )
        for one, other in zip(ours, theirs, strict=True):
            assert_near(one, other)


@needs_device
@pytest.mark.parametrize("C", [2, 3, 16])
def test_blocks_of_a_hessian_are_pairs_of_classes(C: int) -> None:
    expected = torch.triu_indices(C, C, 1)
    found = torch.empty(2, 256, dtype=torch.int32, device=DEVICE)
    store_classes[(1,)](found, C=C)
    assert torch.equal(found[:, : expected.shape[1]].cpu().long(), expected)


@needs_device
@pytest.mark.usefixtures("fused")
def test_sums_are_written_to_the_past_if_allowed() -> None:
    single, double, others = batch((9, 0, 5), 20, 3)
    past = past_of(3, 21, 3)
    expected, reference = decayed(double, others, [tensor.clone() for tensor in past], True)
    found, sums = decayed(single, others, past, True, overwrite=True)
    for total, before, its in zip(sums, past, reference, strict=True):
        assert total.data_ptr() == before.data_ptr()
        assert_near(total, its)
    for mine, its in zip(found, expected, strict=True):
        assert_near(mine, its)


@needs_device
@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("with_momentum", [False, True])
def test_a_sure_prediction_keeps_its_digits(with_momentum: bool) -> None:
    single, _, (targets, domains, labels) = batch((20, 21), 4, 3)
    hot = 40.0 * torch.nn.functional.one_hot(targets, 3).float()
    single[1] = (hot + torch.linspace(0, 1, 123, device=DEVICE).reshape(41, 3)).requires_grad_()
    results = []
    for of in (single, [tensor.detach().double().requires_grad_() for tensor in single]):
        if with_momentum:
            values, _ = decayed(of, [targets, domains, labels], None, True)
        else:
            values = [weighted_spreads(*of, targets, domains, True, weights)[0] for weights in WEIGHTS[:2]]
        slopes = [torch.autograd.grad(value, of, retain_graph=True) for value in values]
        results.append([*values, *slopes[0], *slopes[1]])
    for mine, its in zip(*results, strict=True):
        assert (mine.double() - its).norm() <= 1e-3 * its.norm()


@needs_device
@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("sizes", [(7,), (0, 7, 0)], ids=str)
def test_one_domain_is_exactly_zero(sizes: tuple[int, ...]) -> None:
    single, _, others = batch(sizes, 20, 3)
    values, _ = decayed(single, others, past_of(len(sizes), 21, 3), True)
    assert [value.item() for value in values] == [0, 0]
    assert not any(slope.any() for slope in torch.autograd.grad(sum(values), single))


@needs_device
@pytest.mark.usefixtures("fused")
def test_views_and_samples_of_no_known_domain() -> None:
    single, double, (targets, domains, labels) = batch((6, 5, 7), 9, 4)
    wide, results = torch.stack([domains, domains], 1)[:, 0], []
    for of in (single, double):
        inputs = [tensor.T.contiguous().T for tensor in of]
        values, _ = decayed(inputs, [targets, wide, labels[:2]], past_of(2, 10, 4), True)
        results.append((*values, *torch.autograd.grad(sum(values), of)))
    for one, other in zip(*results, strict=True):
        assert_near(one, other)
    assert not results[0][2][domains == labels[2]].any()


@needs_device
@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("C", [2, 3])
def test_second_derivatives(C: int) -> None:
    single, double, others = batch((6, 0, 5), 4, C)
    results = []
    for of in (single, double):
        values, _ = decayed(of, others, past_of(3, 5, C), True, overwrite=of is single)
        slopes = torch.autograd.grad(sum(values), of, create_graph=True)
        results.append(torch.autograd.grad(sum(slope.square().sum() for slope in slopes), of))
    for one, other in zip(*results, strict=True):
        assert_near(one, other, 1e-3)


@needs_device
@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("wanted", [0, 1])
def test_only_the_gradient_that_is_asked_for(wanted: int) -> None:
    single, _, others = batch((4, 4), 4, 3)
    inputs = [tensor.detach() for tensor in single]
    inputs[wanted].requires_grad_()
    sum(decayed(inputs, others, None, True)[0]).backward()
    assert inputs[wanted].grad.abs().sum() > 0
    assert inputs[1 - wanted].grad is None


def test_the_host_has_no_kernels() -> None:
    X, Z = torch.zeros(128, 384), torch.zeros(128, 7)
    assert not _cma.can_fuse_spreads(X, Z)
    assert not _cma_host.can_fuse_decayed(X, Z, torch.arange(3), True)
