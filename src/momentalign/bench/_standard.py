"""The benchmarks that `momentalign bench` runs without an option, in the order in which they are printed."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch

from momentalign.bench._linear import LINEAR_SIZES, LinearSize, linear_fits
from momentalign.bench._penalty import BatchSize, captured_penalty_rows, growth_rows, many_tiles_rows, penalty_rows
from momentalign.bench._results import BenchmarkGroup
from momentalign.bench._step import captured_step_rows, mnist_cnn, small_mlp, step_rows, vit_small


def standard_plan(device: torch.device, *, quick: bool, memory_limit: int) -> Iterator[BenchmarkGroup]:
    """Penalties alone, their growth, whole steps; launches and tiles on CUDA, linear fits on a CPU.

    Args:
        device: CPU or CUDA.
        quick: A few small measurements instead of all.
        memory_limit: Bytes that a baseline may take; one that needs more is listed, but not run.

    Yields:
        Groups of measurements.
    """
    budget = 0.05 if quick else 1.0
    draws = 3 if quick else 300  # as many as the published Hutchinson method takes
    sizes = [BatchSize(96, 384, 7, 3), BatchSize(96, 384, 65, 3)]
    if quick:
        sizes = [BatchSize(24, 16, 4, 3)]
    elif device.type == "cuda":
        sizes += [BatchSize(96, 768, 1000, 3), BatchSize(192, 384, 65, 6)]
    for size in sizes:
        yield BenchmarkGroup(f"penalty alone, {size}", partial(penalty_rows, size, device, budget, memory_limit, draws))
    base = BatchSize(24, 16, 4, 3) if quick else BatchSize(96, 384, 65, 3)
    grown = [
        base,
        *(replace(base, n=factor * base.n) for factor in (2, 4, 8)),
        replace(base, d=4 * base.d),
        replace(base, C=4 * base.C),
        replace(base, K=4 * base.K),
    ]
    yield BenchmarkGroup("growth of the Gram route", lambda: growth_rows(grown, device, budget))
    if device.type == "cuda":
        step = BatchSize(96, 384, 65, 3)
        seconds = 0.2 if quick else 3.0
        yield BenchmarkGroup(
            "whole step, ViT-S/16", lambda: step_rows(vit_small, step, device, seconds, baselines=True)
        )
        yield BenchmarkGroup("captured step", lambda: captured_step_rows(vit_small, step, device, seconds))
        many = BatchSize(96, 768, 1000, 3)
        yield BenchmarkGroup("captured penalty", lambda: captured_penalty_rows(many, device, budget))
        large = BatchSize(16384, 768, 1000, 3)
        yield BenchmarkGroup("many tiles", lambda: many_tiles_rows(large, device, seconds))
    else:
        step = BatchSize(6 if quick else 192, 128, 2, 3)
        seconds = budget if quick else 10.0
        digits = partial(step_rows, mnist_cnn, step, device, seconds, baselines=not quick)
        yield BenchmarkGroup("whole step, MNIST_CNN", digits)
        table = BatchSize(96, 64, 2, 3)
        yield BenchmarkGroup(
            "whole step, small MLP", lambda: step_rows(small_mlp, table, device, budget, baselines=False)
        )
        linear = (LinearSize(400, 10, 2),) if quick else LINEAR_SIZES
        yield BenchmarkGroup("linear fit", lambda: list(linear_fits(linear)))
