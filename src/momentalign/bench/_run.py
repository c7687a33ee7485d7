"""All benchmarks for a device, in the order in which they are printed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from momentalign.bench._capture import captured_rows, large_rows
from momentalign.bench._linear import SIZES, LinearSize, linear_fits
from momentalign.bench._penalty import Size, growth_rows, penalty_rows
from momentalign.bench._rows import Row
from momentalign.bench._step import captured_step_rows, mnist_cnn, step_rows, vit_small


@dataclass(frozen=True)
class Section:
    """Some measurements that belong together."""

    title: str
    run: Callable[[], list[Row]]


def plan(device: torch.device, *, quick: bool, memory_limit: int) -> Iterator[Section]:
    """What will be measured.

    Args:
        device: CPU or CUDA.
        quick: A few small measurements instead of all.
        memory_limit: Bytes that a rival may take.

    Yields:
        Sections; nothing runs before :attr:`Section.run` is called.
    """
    budget = 0.05 if quick else 1.0
    draws = 3 if quick else 300  # as many as the published Hutchinson method takes
    sizes = [Size(96, 384, 7, 3), Size(96, 384, 65, 3)]
    if quick:
        sizes = [Size(48, 32, 5, 3)]
    elif device.type == "cuda":
        sizes += [Size(96, 768, 1000, 3), Size(192, 384, 65, 6)]
    for size in sizes:
        yield Section(f"penalty alone, {size}", partial(penalty_rows, size, device, budget, memory_limit, draws))
    base = Size(48, 32, 5, 3) if quick else Size(96, 384, 65, 3)
    grown = [
        base,
        Size(2 * base.n, base.d, base.C, base.K),
        Size(4 * base.n, base.d, base.C, base.K),
        Size(8 * base.n, base.d, base.C, base.K),
        Size(base.n, 4 * base.d, base.C, base.K),
        Size(base.n, base.d, 4 * base.C, base.K),
        Size(base.n, base.d, base.C, 4 * base.K),
    ]
    yield Section("growth of the Gram route", lambda: growth_rows(grown, device, budget))
    if device.type == "cuda":
        step = Size(96, 384, 65, 3)
        seconds = 0.2 if quick else 3.0
        yield Section("whole step, ViT-S/16", lambda: step_rows(vit_small, step, device, seconds, rivals=True))
        yield Section("captured step", lambda: captured_step_rows(vit_small, step, device, seconds))
        yield Section("captured penalty", lambda: captured_rows(96, 768, 1000, 3, device, budget))
        yield Section("many tiles", lambda: large_rows(16384, 768, 1000, 3, device, seconds))
    else:
        step = Size(24 if quick else 192, 128, 2, 3)
        seconds = 0.2 if quick else 20.0
        yield Section("whole step, MNIST_CNN", lambda: step_rows(mnist_cnn, step, device, seconds, rivals=not quick))
        linear = (LinearSize(400, 10, 2),) if quick else SIZES
        yield Section("linear fit", lambda: list(linear_fits(linear)))
