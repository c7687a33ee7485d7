"""What only an accelerator shows: captured launches and large batches."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from momentalign import closed_form
from momentalign.bench._measure import Function, Measurement, measure, peak_bytes
from momentalign.bench._rows import Row
from momentalign.penalties import CMA

_REPEATS = 20


def _repeat(function: Function) -> None:
    for _ in range(_REPEATS):
        function()


def captured(function: Function) -> Function:
    """A replay of the function as one CUDA graph, after a warm-up on a stream of its own."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return partial(_replay, graph, function)


def _replay(graph: torch.cuda.CUDAGraph, keeps_its_tensors: Function) -> None:
    graph.replay()


def captured_rows(n: int, d: int, C: int, K: int, device: torch.device, budget: float) -> list[Row]:
    """The penalty alone, from features and logits and back: launched one by one, captured, compiled and captured."""
    features = torch.randn(n, d, device=device, requires_grad=True)
    logits = torch.randn(n, C, device=device, requires_grad=True)
    targets, domains = torch.randint(C, (n,), device=device), torch.arange(n, device=device) % K

    def run(penalty: Callable[..., Tensor]) -> Function:
        return lambda: torch.autograd.grad(penalty(features, logits, targets, domains), (features, logits))

    eager = run(CMA(route="gram").to(device))
    compiled = run(torch.compile(CMA(route="gram").to(device), fullgraph=True))
    compiled()
    functions = {"eager": eager, "captured": captured(eager), "compiled and captured": captured(compiled)}
    # Back to back, as in training: alone between two readings of the clock a short replay finds the device asleep.
    runs: dict[str, Function] = {name: partial(_repeat, function) for name, function in functions.items()}
    found = {name: Measurement(row.seconds / _REPEATS, 0) for name, row in measure(runs, device, budget).items()}
    size = f"n={n} d={d} C={C} K={K}"
    return [Row.of("launches", size, f"CMA, {name}", row, found["captured"]) for name, row in found.items()]


def large_rows(n: int, d: int, C: int, K: int, device: torch.device, budget: float) -> list[Row]:
    """A batch of many tiles against the matrix products that it cannot do without, forward and backward."""
    features = torch.randn(n, d, device=device, requires_grad=True)
    logits = torch.randn(n, C, device=device, requires_grad=True)
    targets, domains = torch.randint(C, (n,), device=device), torch.arange(n, device=device) % K

    def penalty() -> object:
        residuals = closed_form.SoftmaxResiduals(logits, targets)
        spreads = closed_form.gram_statistics(["spread"], [1, 2], residuals, features, domains, True)["spread"]
        return torch.autograd.grad(spreads[0] + spreads[1], (features, logits))

    # Features with features, residuals with residuals, R with R and with R²: once forward, twice backward.
    x, p = features.detach(), logits.detach()
    tile = torch.empty(n, n, device=device)

    def products() -> None:
        torch.mm(x, x.T, out=tile)
        for _ in range(3):
            torch.mm(p, p.T, out=tile)
        for _ in range(2):
            tile @ x
        for _ in range(6):
            tile @ p

    memory = peak_bytes(penalty, device)
    found = measure({"CMA, gram": penalty, "its matrix products": products}, device, budget)
    unit = Measurement(found["its matrix products"].seconds, 0)
    size = f"n={n} d={d} C={C} K={K}"
    return [
        Row.of("many tiles", size, "CMA, gram", Measurement(found["CMA, gram"].seconds, memory), unit),
        Row.of("many tiles", size, "its matrix products", unit, unit, "on n x n matrices held in memory"),
    ]
