import pytest
import torch
from torch import Tensor

from momentalign._triton import AVAILABLE
from momentalign.closed_form import HEADS, SoftmaxResiduals, _decayed_spreads, decayed_spreads, direct_size
from tests.kernels import DEVICE, large, needs_device
from tests.references import make_batch

if AVAILABLE:
    import triton
    import triton.language as tl

    from momentalign.closed_form._decayed_kernels import classes_of

    @triton.jit
    def store_classes(out, C: tl.constexpr):  # type: ignore[no-untyped-def]
        t = tl.arange(0, 256)
        a, b = classes_of(t, C)
        tl.store(out + t, a)
        tl.store(out + 256 + t, b)


Problem = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, list[Tensor]]

DECAY, DIVISORS = 0.9, (2.0, 3.0)


def problem(sizes: tuple[int, ...], d: int, C: int, bias: bool, scale: float = 1.0) -> Problem:
    """Features, logits, targets, domains, their labels and a past; sizes may be zero."""
    generator = torch.Generator().manual_seed(d)
    labels = torch.arange(len(sizes)) * 2**33 - 3
    domains = torch.repeat_interleave(labels, torch.tensor(sizes))
    n, D = sum(sizes), d + bias

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    domains = domains[torch.randperm(n, generator=generator)]
    targets = torch.randint(C, (n,), generator=generator)
    square = normal(len(sizes), direct_size(2, SoftmaxResiduals, D, C) // D**2, D, D)
    past = [normal(len(sizes), C * D), (square + square.mT).flatten(1)]  # Hessians are symmetric
    return normal(n, d).requires_grad_(), (scale * normal(n, C)).requires_grad_(), targets, domains, labels, past


def dense(order: int, X: Tensor, logits: Tensor, targets: Tensor) -> Tensor:
    """Derivative of the mean cross-entropy by the head, sample by sample."""
    P = logits.softmax(1)
    if order == 1:
        R = P - torch.nn.functional.one_hot(targets, P.shape[1])
        return torch.einsum("ic,ij->cj", R, X) / len(X)
    A = torch.diag_embed(P) - P[:, :, None] * P[:, None, :]
    return torch.einsum("iac,ij,ik->ajck", A, X, X) / len(X)


def spreads_of(values: list[Tensor]) -> Tensor:
    stacked = torch.stack(values)
    return (stacked - stacked.mean(0)).square().flatten(1).sum(1).mean()


cases = pytest.mark.parametrize("sizes", [(4, 4), (5, 1, 9), (3, 0, 6, 2)], ids=str)


@cases
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("C", [2, 3])
def test_spreads_are_those_of_dense_sums(sizes: tuple[int, ...], bias: bool, C: int) -> None:
    batches = [problem(sizes, d, C, bias)[:5] for d in (4, 4)]
    features, logits = batches[0][0].detach().flip(0), batches[0][1].detach().flip(0)
    _, _, targets, domains, labels = batches[0]
    _, past = decayed_spreads(
        [1, 2], SoftmaxResiduals, features, logits, targets, domains, labels, None, DECAY, bias=bias
    )
    X, Z, *_ = batches[1]
    found, sums = decayed_spreads(
        [1, 2], SoftmaxResiduals, X, Z, targets, domains, labels, past, DECAY, bias=bias, divisors=DIVISORS
    )
    for order, (value, by) in enumerate(zip(found, DIVISORS, strict=True), 1):
        total = []
        for label in labels:
            rows = domains == label
            if rows.any():
                with_bias = [torch.cat([x, torch.ones_like(x[:, :1])], 1) if bias else x for x in (X, features)]
                now, before = (
                    dense(order, x[rows], z[rows], targets[rows]) for x, z in zip(with_bias, (Z, logits), strict=True)
                )
                total.append(now + DECAY * before)
        expected = spreads_of(total) / by
        torch.testing.assert_close(value, expected, rtol=1e-11, atol=0)
        ours, theirs = (torch.autograd.grad(each, (X, Z), retain_graph=True) for each in (value, expected))
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-14)
    assert not any(total.requires_grad for total in sums)
    missing = [e for e, size in enumerate(sizes) if size == 0]
    for total, before in zip(sums, past, strict=True):
        torch.testing.assert_close(total[missing], DECAY * before[missing], rtol=1e-14, atol=0)


def test_any_orders_of_other_losses() -> None:
    features, logits, _, domains, labels, _ = problem((4, 3), 3, 1, True)
    targets = torch.arange(7) % 2
    values, sums = decayed_spreads(
        [3, 1], HEADS["logistic"], features, logits, targets, domains, labels, None, DECAY, bias=True
    )
    assert all(value > 0 for value in values)
    assert [total.shape for total in sums] == [(2, 4**3), (2, 4)]


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_decayed_spreads, "_can_fuse", lambda features, *_: features.dtype == torch.float32)


def both_precisions(
    sizes: tuple[int, ...], d: int, C: int, bias: bool, scale: float = 1.0
) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]:
    """The same features and logits in two precisions; targets, domains and labels; and the past in float32."""
    X, Z, *others, past = problem(sizes, d, C, bias, scale)
    single = [tensor.detach().to(DEVICE).float().requires_grad_() for tensor in (X, Z)]
    double = [tensor.detach().double().requires_grad_() for tensor in single]
    return single, double, [tensor.to(DEVICE) for tensor in others], [tensor.to(DEVICE).float() for tensor in past]


def call(
    of: list[Tensor],
    others: list[Tensor],
    past: list[Tensor] | None,
    bias: bool,
    divisors: tuple[float, float] | None = None,
    overwrite: bool = False,
) -> tuple[list[Tensor], list[Tensor]]:
    before = None if past is None else [tensor if overwrite else tensor.to(of[0].dtype) for tensor in past]
    return decayed_spreads(
        [1, 2], SoftmaxResiduals, *of, *others, before, DECAY, bias=bias, divisors=divisors, overwrite=overwrite
    )


def assert_near(found: Tensor, expected: Tensor, relative: float = 1e-4) -> None:
    assert found.shape == expected.shape
    assert (found.double() - expected).norm() <= relative * expected.norm() + 1e-7


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
        ((1, 2, 1, 1, 1), 3, 2, 1.0, False, True),
        ((2, 1), 3, 5, 30.0, True, True),
        pytest.param((1, 1), 3, 16, 1.0, True, True, marks=large),
    ],
    ids=str,
)
def test_the_kernels_give_the_same(
    sizes: tuple[int, ...], d: int, C: int, scale: float, bias: bool, with_past: bool
) -> None:
    single, double, others, past = both_precisions(sizes, d, C, bias, scale)
    kept = [tensor.clone() for tensor in past]
    found, sums = call(single, others, past if with_past else None, bias, DIVISORS)
    expected, reference = call(double, others, past if with_past else None, bias, DIVISORS)
    assert all(torch.equal(tensor, before) for tensor, before in zip(past, kept, strict=True))
    for mine, its in zip([*found, *sums], [*expected, *reference], strict=True):
        assert_near(mine, its)
    assert not any(total.requires_grad for total in sums)
    for tensor in (*past, *sums):
        tensor.zero_()  # the next batch overwrites them before backward
    for weights in ((1.0, 0.0), (0.0, 1.0), (2.0, 0.7)):
        ours, theirs = (
            torch.autograd.grad(weights[0] * values[0] + weights[1] * values[1], of, retain_graph=True)
            for values, of in ((found, single), (expected, double))
        )
        for one, other in zip(ours, theirs, strict=True):
            assert_near(one, other)


@needs_device
@pytest.mark.parametrize("C", [3, 16])
def test_the_blocks_of_a_hessian_are_pairs_of_classes_then_the_diagonal(C: int) -> None:
    expected = torch.cat([torch.triu_indices(C, C, 1), torch.arange(C).expand(2, C)], 1)
    found = torch.empty(2, 256, dtype=torch.int32, device=DEVICE)
    store_classes[(1,)](found, C=C)
    assert torch.equal(found[:, : expected.shape[1]].cpu().long(), expected)


@needs_device
@pytest.mark.usefixtures("fused")
def test_the_kernels_write_to_the_past_if_allowed() -> None:
    single, double, others, past = both_precisions((9, 0, 5), 20, 3, True)
    expected, reference = call(double, others, [tensor.clone() for tensor in past], True)
    found, sums = call(single, others, past, True, overwrite=True)
    for total, before, its in zip(sums, past, reference, strict=True):
        assert total.data_ptr() == before.data_ptr()
        assert_near(total, its)
    for mine, its in zip(found, expected, strict=True):
        assert_near(mine, its)


@needs_device
@pytest.mark.usefixtures("fused")
def test_the_kernels_keep_the_digits_of_a_sure_prediction() -> None:
    X, _, targets, *rest = problem((20, 21), 4, 3, True)
    logits = 40.0 * torch.nn.functional.one_hot(targets, 3) + torch.linspace(0, 1, 123).reshape(41, 3)
    single = [tensor.detach().to(DEVICE).float().requires_grad_() for tensor in (X, logits)]
    double = [tensor.detach().double().requires_grad_() for tensor in single]
    others = [tensor.to(DEVICE) for tensor in (targets, *rest[:2])]
    for mine, its in zip(call(single, others, None, True)[0], call(double, others, None, True)[0], strict=True):
        torch.testing.assert_close(mine.double(), its, rtol=1e-4, atol=0)
        ours, theirs = (
            torch.autograd.grad(value, of, retain_graph=True) for value, of in ((mine, single), (its, double))
        )
        for one, other in zip(ours, theirs, strict=True):
            assert (one.double() - other).norm() <= 1e-4 * other.norm()


@needs_device
@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("sizes", [(7,), (0, 7, 0)], ids=str)
def test_the_kernels_give_exactly_zero_for_one_domain(sizes: tuple[int, ...]) -> None:
    single, _, others, past = both_precisions(sizes, 20, 3, True)
    values, _ = call(single, others, past, True)
    assert [value.item() for value in values] == [0, 0]
    assert not any(slope.any() for slope in torch.autograd.grad(sum(values), single))


@needs_device
@pytest.mark.usefixtures("fused")
def test_the_kernels_take_views_and_samples_of_no_known_domain() -> None:
    single, double, (targets, domains, labels), past = both_precisions((6, 5, 7), 9, 4, True)
    wide = torch.stack([domains, domains], 1)[:, 0]
    results = []
    for of in (single, double):
        inputs = [tensor.T.contiguous().T for tensor in of]
        values, _ = call(inputs, [targets, wide, labels[:2]], [tensor[:2] for tensor in past], True)
        results.append((*values, *torch.autograd.grad(sum(values), of)))
    for one, other in zip(*results, strict=True):
        assert_near(one, other)
    assert not results[0][2][domains == labels[2]].any()


@needs_device
@pytest.mark.usefixtures("fused")
def test_second_derivatives_behind_the_kernels() -> None:
    single, double, others, past = both_precisions((6, 0, 5), 4, 3, True)
    results = []
    for of in (single, double):
        before = [tensor.clone() for tensor in past] if of is single else past
        values, _ = call(of, others, before, True, overwrite=of is single)
        slopes = torch.autograd.grad(sum(values), of, create_graph=True)
        results.append(torch.autograd.grad(sum(slope.square().sum() for slope in slopes), of))
    for one, other in zip(*results, strict=True):
        assert_near(one, other, 1e-3)


@needs_device
@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("wanted", [0, 1])
def test_the_kernels_give_only_the_gradient_that_is_asked_for(wanted: int) -> None:
    single, _, others, past = both_precisions((4, 4), 4, 3, True)
    inputs = [tensor.detach() for tensor in single]
    inputs[wanted].requires_grad_()
    sum(call(inputs, others, past, True)[0]).backward()
    assert inputs[wanted].grad.abs().sum() > 0
    assert inputs[1 - wanted].grad is None


def test_the_host_has_no_kernels() -> None:
    assert not _decayed_spreads._can_fuse(torch.zeros(2, 3), torch.zeros(2, 2), torch.arange(2), True)


@pytest.mark.parametrize(
    ("loss", "orders", "fused"),
    [
        ("cross_entropy", [1, 2], True),
        ("cross_entropy", [1], False),
        ("cross_entropy", [2, 1], False),
        ("squared_error", [1, 2], False),
    ],
)
def test_kernels_are_for_both_orders_of_the_cross_entropy(
    loss: str, orders: list[int], fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def kernels(*inputs: object) -> tuple[list[Tensor], list[Tensor]]:
        seen.append(inputs[-2])
        return [], []

    monkeypatch.setattr(_decayed_spreads, "_can_fuse", lambda *_: True)
    monkeypatch.setattr(_decayed_spreads, "_fused_spreads", kernels)
    batch = make_batch(loss, 6, 3, 2)
    options = {"bias": True, "divisors": [2.0, 3.0][: len(orders)]}
    decayed_spreads(orders, HEADS[loss], *batch.inputs, batch.inputs[-1].unique(), None, 0.9, **options)
    assert seen == ([(2.0, 3.0)] if fused else [])
