import pytest
import torch
from torch import Tensor

from momentalign.closed_form import _variance_spread, same, variance_spread

Problem = tuple[Tensor, Tensor, Tensor, Tensor]


def problem(sizes: tuple[int, ...], d: int, C: int, bias: bool) -> Problem:
    """Residuals, features, members and a past; sizes may be zero."""
    generator = torch.Generator().manual_seed(d)
    domains = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    n = sum(sizes)
    member = same(domains[torch.randperm(n, generator=generator)], torch.arange(len(sizes)), torch.float64)
    past = normal(len(sizes), C * (d + bias)).abs()
    return normal(n, C).requires_grad_(), normal(n, d).requires_grad_(), member, past


def plainly(R: Tensor, X: Tensor, member: Tensor, past: Tensor | None, decay: float, bias: bool) -> Tensor:
    """Domain by domain, from the samples' gradients."""
    X = torch.cat([X, torch.ones_like(X[:, :1])], 1) if bias else X
    gradients = (R[:, :, None] * X[:, None, :]).flatten(1)
    present = [e for e in range(member.shape[1]) if member[:, e].any()]
    values = torch.stack([gradients[member[:, e] > 0].var(0, correction=0) for e in present])
    if past is not None:
        values = values + decay * past[present]
    return (values - values.mean(0)).square().mean()


cases = pytest.mark.parametrize("sizes", [(4, 4), (5, 1, 9), (3, 0, 6, 2)], ids=str)


@cases
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("with_past", [True, False])
@pytest.mark.parametrize("entries", [2**22, 0], ids=["by hand", "by products"])
def test_value_and_gradients(
    sizes: tuple[int, ...], bias: bool, with_past: bool, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_variance_spread, "_ENTRIES", entries)
    R, X, member, past = problem(sizes, 4, 3, bias)
    before = past if with_past else None
    value, sums = variance_spread(R, X, member, before, 0.9, bias)
    expected = plainly(R, X, member, before, 0.9, bias)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
    ours, theirs = (torch.autograd.grad(3 * each, (R, X)) for each in (value, expected))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-14)
    assert not sums.requires_grad
    missing = [e for e, size in enumerate(sizes) if size == 0]
    torch.testing.assert_close(sums[missing], (0.9 * past if with_past else 0 * past)[missing], rtol=1e-14, atol=0)


@cases
def test_second_derivatives(sizes: tuple[int, ...]) -> None:
    R, X, member, past = problem(sizes, 2, 2, True)

    def value(R: Tensor, X: Tensor) -> Tensor:
        return variance_spread(R, X, member, past, 0.5, True)[0]

    assert torch.autograd.gradcheck(value, (R, X))
    assert torch.autograd.gradgradcheck(value, (R, X))


def test_second_derivatives_after_the_past_was_written_over() -> None:
    found = []
    for changes in (False, True):
        R, X, member, past = problem((3, 4), 2, 2, True)
        value, _ = variance_spread(R, X, member, past, 0.5, True)
        if changes:
            past.zero_()
        (slope,) = torch.autograd.grad(value, X, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), (R, X)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=0)


def test_one_domain_is_exactly_zero() -> None:
    R, X, member, past = (tensor.detach().float() for tensor in problem((0, 7, 0), 4, 3, True))
    value, _ = variance_spread(R.requires_grad_(), X, member, past, 0.9, True)
    assert value.item() == 0
    assert not torch.autograd.grad(value, R)[0].any()


@pytest.mark.parametrize("wanted", [0, 1])
def test_only_what_is_asked_for_gets_a_gradient(wanted: int) -> None:
    R, X, member, past = problem((4, 4), 4, 3, True)
    inputs = [R.detach(), X.detach()]
    inputs[wanted].requires_grad_()
    variance_spread(*inputs, member, past, 0.9, True)[0].backward()
    assert inputs[wanted].grad.abs().sum() > 0
    assert inputs[1 - wanted].grad is None
