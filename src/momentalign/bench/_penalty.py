"""The penalty alone, forward and backward down to features and head, against its rivals."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from momentalign import closed_form
from momentalign.bench._measure import Function, measure
from momentalign.bench._rivals import (
    Rival,
    backpropagated_hgp,
    backpropagated_hutchinson,
    dense_hessian,
    per_sample_hessian,
)
from momentalign.bench._rows import Row
from momentalign.penalties import CMA, HGP, DomainPenalty, Fishr, Hutchinson, MomentAlignment


@dataclass(frozen=True)
class Size:
    """A batch: n samples, d features, C classes, K domains."""

    n: int
    d: int
    C: int
    K: int

    def __str__(self) -> str:
        return f"n={self.n} d={self.d} C={self.C} K={self.K}"


def penalty_rows(size: Size, device: torch.device, budget: float, memory_limit: int, draws: int) -> list[Row]:
    """Measure everything that fits at one size.

    Args:
        size: The batch.
        device: Where to run.
        budget: Seconds for each.
        memory_limit: Bytes that a rival may be expected to take; one that needs more is listed, not run.
        draws: Random draws of sampled Hutchinson.

    Returns:
        A row each, times and memory in units of CMA by the Gram route.
    """
    width = size.d + 1
    dense = 4 * 4 * size.K * (size.C * width) ** 2  # the tensors, their distances from the mean, their gradients
    candidates: dict[str, tuple[Rival, int]] = {
        "cross-entropy alone": (_plain, 0),
        "CMA, gram": (ours(CMA(route="gram", validate=False, num_domains=size.K), device), 0),
        "CMA, direct": (ours(CMA(route="direct", validate=False, num_domains=size.K), device), dense // 2),
        "order 3 alone, gram": (ours(MomentAlignment({3: 1.0}, validate=False), device), 0),
        "Fishr": (ours(Fishr(validate=False, num_domains=size.K), device), 0),
        "HGP": (ours(HGP(validate=False), device), 0),
        "Hutchinson, exact": (ours(Hutchinson(validate=False), device), 0),
        "CMA, pairwise traces": (
            ours(CMA(route="pairwise", validate=False, num_domains=size.K), device),
            4 * 3 * size.n * (size.C**2 + width**2),
        ),
        "HGP by double back-propagation": (backpropagated_hgp, 0),
        f"Hutchinson, {draws} back-propagations": (
            backpropagated_hutchinson(draws),
            4 * 4 * size.K * draws * size.C * width,
        ),
        "dense Hessian per domain": (dense_hessian, dense),
        "dense Hessian per sample (published)": (per_sample_hessian, 4 * 3 * size.n * (size.C * width) ** 2),
    }
    size_of_hessian = closed_form.direct_size(2, closed_form.SoftmaxResiduals, width, size.C)
    if size_of_hessian is None or size_of_hessian > closed_form.LARGEST:
        del candidates["CMA, direct"]  # the route refuses
    inputs = inputs_of(size, device)
    fits = {name: rival for name, (rival, need) in candidates.items() if need <= memory_limit}
    found = measure({name: _forward_backward(rival, inputs) for name, rival in fits.items()}, device, budget)
    unit = found["CMA, gram"]
    rows = []
    for name, (_, need) in candidates.items():
        if name in found:
            rows.append(Row.of("penalty alone", size, name, found[name], unit))
        else:
            note = f"needs about {need / 2**30:,.0f} GiB, not run"
            rows.append(Row("penalty alone", str(size), name, note=note))
    return rows


def growth_rows(sizes: list[Size], device: torch.device, budget: float) -> list[Row]:
    """How CMA by the Gram route grows: each size in units of the first."""
    functions = {
        str(size): _forward_backward(
            ours(CMA(route="gram", validate=False, num_domains=size.K), device), inputs_of(size, device)
        )
        for size in sizes
    }
    found = measure(functions, device, budget)
    unit = found[str(sizes[0])]
    return [Row.of("growth", size, "CMA, gram", found[str(size)], unit) for size in sizes]


def inputs_of(size: Size, device: torch.device) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(size.n, size.d, generator=generator)
    weight = torch.randn(size.C, size.d, generator=generator) / size.d**0.5
    targets = torch.randint(size.C, (size.n,), generator=generator)
    domains = torch.arange(size.n) % size.K
    floats = [tensor.to(device).requires_grad_() for tensor in (features, weight, torch.zeros(size.C))]
    return *floats, targets.to(device), domains.to(device)


def _forward_backward(rival: Rival, inputs: tuple[Tensor, ...]) -> Function:
    features, weight, bias, targets, domains = inputs

    def run() -> object:
        return torch.autograd.grad(rival(features, weight, bias, targets, domains), (features, weight, bias))

    return run


def _plain(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
    return cross_entropy(linear(features, weight, bias), targets)


def ours(penalty: DomainPenalty, device: torch.device) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]:
    penalty = penalty.to(device)

    def value(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
        result: Tensor = penalty(features, linear(features, weight, bias), targets, domains)
        return result

    return value
