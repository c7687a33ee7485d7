"""The penalty alone, forward and backward down to features and head: against baselines, captured, in many tiles."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from momentalign import closed_form
from momentalign.bench._baselines import (
    HeadPenalty,
    backpropagated_hgp,
    backpropagated_hutchinson,
    dense_hessian,
    per_sample_hessian,
)
from momentalign.bench._measure import Call, Measurement, captured, measure_in_turns
from momentalign.bench._results import BenchmarkRow
from momentalign.penalties import CMA, HGP, DomainPenalty, Fishr, Hutchinson, MomentAlignment

_REPEATS = 20


@dataclass(frozen=True)
class BatchSize:
    """A batch: n samples, d features, C classes, K domains."""

    n: int
    d: int
    C: int
    K: int

    def __str__(self) -> str:
        return f"n={self.n} d={self.d} C={self.C} K={self.K}"

    def direct_bytes(self) -> int | None:
        """Estimated memory of the direct route: Hessians, distances from their mean, gradients; None if it refuses."""
        entries = closed_form.direct_size(2, closed_form.SoftmaxResiduals, self.d + 1, self.C)
        return None if entries is None or entries > closed_form.DIRECT_LIMIT else 4 * 4 * self.K * entries

    def pairwise_bytes(self) -> int:
        """Estimated memory of the pairwise route."""
        return 4 * 3 * self.n * (self.C**2 + (self.d + 1) ** 2)


def penalty_rows(
    size: BatchSize, device: torch.device, budget: float, memory_limit: int, draws: int
) -> list[BenchmarkRow]:
    """Penalties and baselines at one size, in units of CMA by the Gram route.

    A baseline that is expected to need more than `memory_limit` bytes is listed, but not run; `draws` are the random
    draws of sampled Hutchinson.
    """
    width = size.d + 1
    domains: dict[str, Any] = {"validate": False, "num_domains": size.K}
    dense = 4 * 4 * size.K * (size.C * width) ** 2  # the tensors, their distances from the mean, their gradients
    candidates: dict[str, tuple[HeadPenalty, int]] = {
        "cross-entropy alone": (_cross_entropy, 0),
        "CMA, gram": (from_head(CMA(route="gram", **domains), device), 0),
        "CMA, direct": (from_head(CMA(route="direct", **domains), device), size.direct_bytes() or 0),
        "order 3 alone, gram": (from_head(MomentAlignment({3: 1.0}, validate=False), device), 0),
        "Fishr": (from_head(Fishr(**domains), device), 0),
        "HGP": (from_head(HGP(validate=False), device), 0),
        "Hutchinson, exact": (from_head(Hutchinson(validate=False), device), 0),
        "CMA, pairwise traces": (from_head(CMA(route="pairwise", **domains), device), size.pairwise_bytes()),
        "HGP by double back-propagation": (backpropagated_hgp, 0),
        f"Hutchinson, {draws} back-propagations": (
            backpropagated_hutchinson(draws),
            4 * 4 * size.K * draws * size.C * width,
        ),
        "dense Hessian per domain": (dense_hessian, dense),
        "dense Hessian per sample (published)": (per_sample_hessian, 4 * 3 * size.n * (size.C * width) ** 2),
    }
    if size.direct_bytes() is None:
        del candidates["CMA, direct"]
    inputs = _inputs(size, device)
    fits = {name: penalty for name, (penalty, need) in candidates.items() if need <= memory_limit}
    measured = measure_in_turns(
        {name: _forward_backward(penalty, inputs) for name, penalty in fits.items()}, device, budget
    )
    unit = measured["CMA, gram"]
    rows = []
    for name, (_, need) in candidates.items():
        if name in measured:
            rows.append(BenchmarkRow.of("penalty alone", size, name, measured[name], unit))
        else:
            note = f"needs about {need / 2**30:,.0f} GiB, not run"
            rows.append(BenchmarkRow("penalty alone", str(size), name, note=note))
    return rows


def growth_rows(sizes: list[BatchSize], device: torch.device, budget: float) -> list[BenchmarkRow]:
    """Growth of CMA by the Gram route: each size in units of the first."""
    calls = {
        str(size): _forward_backward(
            from_head(CMA(route="gram", validate=False, num_domains=size.K), device), _inputs(size, device)
        )
        for size in sizes
    }
    measured = measure_in_turns(calls, device, budget)
    unit = measured[str(sizes[0])]
    return [BenchmarkRow.of("growth", size, "CMA, gram", measured[str(size)], unit) for size in sizes]


def captured_penalty_rows(size: BatchSize, device: torch.device, budget: float) -> list[BenchmarkRow]:
    """CMA from features and logits and back: eager, captured, compiled and captured."""
    features, logits, targets, domains = _features_and_logits(size, device)

    def run(penalty: Callable[..., Tensor]) -> Call:
        return lambda: torch.autograd.grad(penalty(features, logits, targets, domains), (features, logits))

    eager = run(CMA(route="gram").to(device))
    compiled = run(torch.compile(CMA(route="gram").to(device), fullgraph=True))
    compiled()
    calls = {"eager": eager, "captured": captured(eager), "compiled and captured": captured(compiled)}
    # Back to back, as in training: a single short replay finds the device idle.
    repeated: dict[str, Call] = {name: partial(_repeat, call) for name, call in calls.items()}
    measured = {
        name: Measurement(row.seconds / _REPEATS, 0) for name, row in measure_in_turns(repeated, device, budget).items()
    }
    return [
        BenchmarkRow.of("launches", size, f"CMA, {name}", row, measured["captured"]) for name, row in measured.items()
    ]


def many_tiles_rows(size: BatchSize, device: torch.device, budget: float) -> list[BenchmarkRow]:
    """A batch of many tiles against the matrix products that it cannot do without, forward and backward."""
    features, logits, targets, domains = _features_and_logits(size, device)

    def penalty() -> object:
        residuals = closed_form.SoftmaxResiduals(logits, targets)
        spreads, _ = closed_form.gram_spreads([1, 2], residuals, features, domains, True)
        return torch.autograd.grad(spreads[0] + spreads[1], (features, logits))

    # Features with features, residuals with residuals, R with R and with R²: once forward, twice backward.
    x, p = features.detach(), logits.detach()
    tile = torch.empty(size.n, size.n, device=device)

    def products() -> None:
        torch.mm(x, x.T, out=tile)
        for _ in range(3):
            torch.mm(p, p.T, out=tile)
        for _ in range(2):
            tile @ x
        for _ in range(6):
            tile @ p

    measured = measure_in_turns({"CMA, gram": penalty, "its matrix products": products}, device, budget)
    unit = Measurement(measured["its matrix products"].seconds, 0)
    return [
        BenchmarkRow.of("many tiles", size, "CMA, gram", measured["CMA, gram"], unit),
        BenchmarkRow.of("many tiles", size, "its matrix products", unit, unit, "on n x n matrices held in memory"),
    ]


def from_head(penalty: DomainPenalty, device: torch.device) -> HeadPenalty:
    """A penalty as a function of features, the head's weight and bias, targets and domains."""
    penalty = penalty.to(device)

    def value(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
        result: Tensor = penalty(features, linear(features, weight, bias), targets, domains)
        return result

    return value


def _inputs(size: BatchSize, device: torch.device) -> tuple[Tensor, ...]:
    """Random features, weight, bias, targets and domains."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(size.n, size.d, generator=generator)
    weight = torch.randn(size.C, size.d, generator=generator) / size.d**0.5
    targets = torch.randint(size.C, (size.n,), generator=generator)
    domains = torch.arange(size.n) % size.K
    floats = [tensor.to(device).requires_grad_() for tensor in (features, weight, torch.zeros(size.C))]
    return *floats, targets.to(device), domains.to(device)


def _features_and_logits(size: BatchSize, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Random features, logits, targets and domains."""
    features = torch.randn(size.n, size.d, device=device, requires_grad=True)
    logits = torch.randn(size.n, size.C, device=device, requires_grad=True)
    targets, domains = torch.randint(size.C, (size.n,), device=device), torch.arange(size.n, device=device) % size.K
    return features, logits, targets, domains


def _forward_backward(penalty: HeadPenalty, inputs: tuple[Tensor, ...]) -> Call:
    features, weight, bias, targets, domains = inputs

    def run() -> object:
        return torch.autograd.grad(penalty(features, weight, bias, targets, domains), (features, weight, bias))

    return run


def _repeat(call: Call) -> None:
    for _ in range(_REPEATS):
        call()


def _cross_entropy(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
    return cross_entropy(linear(features, weight, bias), targets)
