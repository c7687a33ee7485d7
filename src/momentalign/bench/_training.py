"""Whole training runs: set-up, steps, evaluation and files."""

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from momentalign.bench._measure import Measurement
from momentalign.bench._results import BenchmarkGroup, BenchmarkRow
from momentalign.data import DomainDataset, Split, load_dataset
from momentalign.training import Clock, make_config, run

BENCHMARKED = ("erm", "cma", "cma-momentum", "fishr", "coral", "hgp", "erm", "cma")
"""Algorithms of the runs; the second runs of ERM and CMA show the noise."""

_STEPS = 5001
_ROWS = 23_333


def training_plan(device: torch.device, *, quick: bool, memory_limit: int = 0) -> Iterator[BenchmarkGroup]:
    """Runs on ColoredMNIST, 5001 steps and a record every 100; on a CPU ColoredDigits, 500 steps."""
    if device.type == "cpu":
        steps = 21 if quick else 500
        yield BenchmarkGroup(f"ColoredDigits, {steps} steps", partial(training_rows, device, "colored-digits", steps))
        return
    steps = 201 if quick else _STEPS
    settings: tuple[dict[str, Any], ...] = (
        {"precision": "bf16"},
        {"precision": "32"},
        {"precision": "bf16", "compile": "penalty"},
        {"precision": "bf16", "compile": "all"},
        {"precision": "bf16", "capture": False, "algorithms": ("erm", "cma")},
    )
    for number, setting in enumerate(settings):
        title = ", ".join(f"{name} {value}" for name, value in setting.items() if name != "algorithms")
        yield BenchmarkGroup(
            f"ColoredMNIST, {steps} steps, {title}", partial(training_rows, device, "colored-mnist", steps, **setting)
        )
        if number == 0:
            for name in ("erm", "cma", "cma-momentum"):
                yield BenchmarkGroup(f"kernels of a step, {name}", partial(kernel_rows, device, name))


def training_rows(
    device: torch.device,
    dataset: str,
    steps: int,
    *,
    precision: str = "32",
    algorithms: tuple[str, ...] = BENCHMARKED,
    **options: Any,
) -> list[BenchmarkRow]:
    """Time whole runs, one algorithm after the other, in units of the first; the notes split the time into parts.

    `options` are those of :func:`momentalign.training.run`.
    """
    data, note = _data(dataset)
    table = ", ".join(["training run", precision, *(f"{name} {value}" for name, value in options.items())])
    measured: list[tuple[str, Measurement, str]] = []
    for number, name in enumerate(algorithms):
        started = time.perf_counter()
        _run(device, data, name, 3, precision, options)
        first = time.perf_counter() - started
        whole, clock = _run(device, data, name, steps, precision, options)
        parts = ", ".join(f"{part} {seconds:.2f}" for part, seconds in clock.seconds.items())
        parts_note = f"{parts} s; warm-up {first:.1f} s" + (f"; {note}" if note and number == 0 else "")
        measured.append((f"{name} again" if name in (seen for seen, *_ in measured) else name, whole, parts_note))
    return [
        BenchmarkRow.of(table, f"{dataset}, {steps} steps", name, row, measured[0][1], note)
        for name, row, note in measured
    ]


def kernel_rows(device: torch.device, name: str, *, precision: str = "bf16") -> list[BenchmarkRow]:
    """CUDA kernels of an algorithm's captured step, the longest first: seconds in one step, and how often each runs."""
    from torch.profiler import ProfilerActivity, profile

    data, _ = _data("colored-mnist")
    first, last = 100, 119
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        # The difference of two runs that are twenty steps apart.
        _run(device, data, name, last + 1, precision, {}, record_every=10_000)
    more = {event.key: (event.self_device_time_total, event.count) for event in trace.key_averages()}
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        _run(device, data, name, first, precision, {}, record_every=10_000)
    steps = last + 1 - first
    rows = []
    for event in trace.key_averages():
        total, count = more.get(event.key, (0.0, 0))
        spent, times = (total - event.self_device_time_total) / steps / 1e6, (count - event.count) / steps
        if times >= 0.5:
            rows.append(
                BenchmarkRow(f"kernels of a step, {precision}", name, event.key[:70], spent, note=f"{times:.0f} times")
            )
    rows.sort(key=lambda row: -(row.seconds or 0))
    total_seconds = sum(row.seconds or 0 for row in rows)
    whole = BenchmarkRow(f"kernels of a step, {precision}", name, "all", total_seconds, note=f"{len(rows)} different")
    return [whole, *rows[:25]]


def _run(
    device: torch.device,
    data: DomainDataset,
    name: str,
    steps: int,
    precision: str,
    options: dict[str, Any],
    record_every: int = 100,
) -> tuple[Measurement, Clock]:
    config = make_config(
        data, name, test_domains=data.names[-1:], steps=steps, precision=precision, record_every=record_every
    )
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        run(config, Path(folder, "run"), data=data, accelerator=device.type, clock=clock, **options)
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
    return Measurement(sum(clock.seconds.values()), peak), clock


def _data(dataset: str) -> tuple[DomainDataset, str]:
    """The data set, or random images of its size where MNIST is not in the data folder."""
    try:
        return load_dataset(dataset), ""
    except OSError:
        return _random_colored_mnist(), "random images: MNIST is not in the data folder"


def _random_colored_mnist() -> DomainDataset:
    generator = torch.Generator().manual_seed(0)
    domains = {}
    for name in ("+90%", "+80%", "-90%"):
        inputs = torch.rand(_ROWS, 2, 28, 28, generator=generator)
        targets = torch.randint(2, (_ROWS,), generator=generator)
        inputs[torch.arange(_ROWS), targets] = 0  # one channel is empty, as in the real ones
        held_out = _ROWS // 5
        domains[name] = {
            "in": Split(inputs[held_out:], targets[held_out:]),
            "out": Split(inputs[:held_out], targets[:held_out]),
        }
    return DomainDataset("colored-mnist", 2, domains)
