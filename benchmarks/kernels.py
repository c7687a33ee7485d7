"""Measure what each Triton kernel gains over plain torch operations: the table of docs/performance.md.

The kernels are switched off and the same training step is captured again, with and without `torch.compile`:

    python -m benchmarks.kernels --out runs/kernels.json

- ColoredMNIST, as `momentalign train` runs it: MNIST_CNN, bfloat16, 3 × 64 images, Adam, one CUDA graph a step;
- ViT-S/16 in bfloat16, 3 × 32 images of 224 pixels, one CUDA graph a step;
- the penalty of the ViT's batch alone, where differences are too small to see in the step.

Images are random. `--quick` runs a few eager steps of tiny batches, also on a CPU, to check that everything works.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from momentalign.bench import BenchmarkRow, environment, write_benchmark
from momentalign.bench._measure import captured
from momentalign.bench._penalty import BatchSize, from_head
from momentalign.bench._step import training_step, vit_small
from momentalign.closed_form import _cma, _decayed
from momentalign.data import DomainDataset, Split
from momentalign.encoders import MNIST_CNN, _networks
from momentalign.penalties import CMA
from momentalign.training import make_config
from momentalign.training._capture import captured_step, compile_parts
from momentalign.training._data import open_rows
from momentalign.training._devices import make_fabric, wrap_network
from momentalign.training._model import build_algorithm, parts_of
from momentalign.training._steps import Sampler, Sums, Training, eager_step, training_pools

RUN_STEPS, RUN_RECORDS, RUN_IMAGES = 5001, 51, 70_000
"""A whole run on ColoredMNIST: its steps, and the images that each of its evaluations passes through the network."""

EVALUATED = 4096
"""Images of a batch of the evaluation."""

Step = Callable[[], object]


def channels_last_forward(self: MNIST_CNN, inputs: Tensor) -> Tensor:
    """Plain layers on images in the memory format that convolutions prefer."""
    features: Tensor = self.layers(inputs.contiguous(memory_format=torch.channels_last))
    return features


def never(*_: object) -> bool:
    """Stands for a check of whether a kernel can be used."""
    return False


PATCHES: dict[str, list[tuple[Any, str, Any]]] = {
    "norm": [(_networks, "can_fuse", never)],
    "norm, channels last": [(MNIST_CNN, "forward", channels_last_forward)],
    "penalty": [(_cma, "can_fuse_spreads", never), (_decayed, "can_fuse_decayed", never)],
}
"""What is replaced, by name."""

PENALTY_VARIANTS: dict[str, tuple[str, ...]] = {
    "as it is": (),
    "plain": ("penalty",),
    "plain and compiled": ("penalty",),
}

VARIANTS: dict[str, dict[str, tuple[str, ...]]] = {
    "erm": {
        "as it is": (),
        "plain": ("norm",),
        "plain, channels last": ("norm, channels last",),
        "plain and compiled": ("norm",),
    },
    "cma": PENALTY_VARIANTS,
    "cma-momentum": PENALTY_VARIANTS,
}


@contextmanager
def replaced(names: tuple[str, ...]) -> Iterator[None]:
    """Replace the named kernels by their plain versions."""
    with ExitStack() as stack:
        for name in names:
            for owner, attribute, replacement in PATCHES[name]:
                stack.enter_context(patch.object(owner, attribute, replacement))
        yield


def random_digits(rows: int, side: int) -> DomainDataset:
    """Random images in the shape of ColoredMNIST, three domains."""
    generator = torch.Generator().manual_seed(0)
    domains = {}
    for name in ("+90%", "+80%", "-90%"):
        inputs = torch.rand(rows, 2, side, side, generator=generator)
        targets = torch.randint(2, (rows,), generator=generator)
        domains[name] = {"in": Split(inputs, targets), "out": Split(inputs[:2], targets[:2])}
    return DomainDataset("colored-mnist", 2, domains)


def digits_step(
    stack: ExitStack, data: DomainDataset, name: str, device: torch.device, *, compiled: bool, quick: bool
) -> Step:
    """One step of `momentalign train`, captured on CUDA, as the loop prepares it."""
    hparams = {"batch_size": 4} if quick else {}
    config = make_config(data, name, hparams=hparams, precision="bf16" if device.type == "cuda" else "32")
    fabric = make_fabric(devices=1, accelerator=device.type, precision=config.precision)
    algorithm = build_algorithm(config, data)
    network, encoder = parts_of(algorithm)
    rows = open_rows(data, encoder.preprocessing, device)
    algorithm.to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    optimizers = algorithm.optimizers()
    algorithm.network = wrap_network(fabric, network)
    if compiled:
        compile_parts(algorithm, network, "all" if name == "erm" else "penalty")
    pools = training_pools(rows, data.names, "in", pool=False)
    sampler = Sampler(pools, range(3), config.hparams["batch_size"], 0, 0, 1, epochs=False)
    training = Training(algorithm, optimizers, fabric.backward, rows, sampler, encoder.preprocessing, 0, 0, 0)
    sums = Sums()
    steps = captured_step(training, sums, 0, 10**6) if device.type == "cuda" else eager_step(training, sums, 0, 10**6)
    advance = stack.enter_context(steps)
    numbers = iter(range(10**6))
    return lambda: advance(next(numbers))


def evaluation_step(device: torch.device, images: int, side: int) -> Step:
    """The network's forward pass on a batch of the evaluation, in bfloat16, captured on CUDA."""
    network = MNIST_CNN(in_channels=2).to(device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    inputs = torch.rand(images, 2, side, side, device=device)

    def forward() -> object:
        with (
            torch.no_grad(),
            torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda", cache_enabled=False),
        ):
            return network(inputs)

    return captured(forward) if device.type == "cuda" else forward


def milliseconds(steps: Mapping[str, Step], device: torch.device, calls: int, rounds: int) -> dict[str, float]:
    """Median time of a call; the steps take turns, each `calls` times back to back."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(rounds + 1):
        for name, step in steps.items():
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            begun = time.perf_counter()
            for _ in range(calls):
                step()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            if turn:  # the first round warms up
                times[name].append((time.perf_counter() - begun) / calls * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


class Study:
    """Measures group by group and keeps the rows."""

    def __init__(self, device: torch.device, *, quick: bool, seconds: float, out: Path) -> None:
        self.device, self.quick, self.out = device, quick, out
        self.begun, self.seconds = time.monotonic(), seconds
        self.rows: list[BenchmarkRow] = []

    @property
    def late(self) -> bool:
        """Whether what takes long should be left out."""
        return time.monotonic() - self.begun > self.seconds

    def add(self, group: str, times: Mapping[str, float], shares: Mapping[str, float] | None = None) -> None:
        """Keep one group's times, print them, and write all rows so far."""
        base, shares = times.get("as it is", next(iter(times.values()))), shares or {}
        print(f"\n{group}  [{time.monotonic() - self.begun:.0f} s]", flush=True)
        for name, value in times.items():
            note = f"{shares[name]:+.1f}% of a run" if shares.get(name) else ""
            row = BenchmarkRow("kernels", group, name, value / 1e3, time_ratio=value / base, note=note)
            self.rows.append(row)
            print(f"  {name:45s} {value:9.4f} ms  {value - base:+8.4f} ms  {100 * (value / base - 1):+6.2f} %  {note}")
        write_benchmark(self.out, self.rows, environment(self.device))

    def digits(self) -> None:
        """ColoredMNIST: evaluation, ERM's step, and every penalty's."""
        side, images = (8, 8) if self.quick else (28, EVALUATED)
        names = {key: value for key, value in VARIANTS["erm"].items() if "compiled" not in key}
        passes = {}
        for name, patches in names.items():
            with replaced(patches):
                passes[name] = evaluation_step(self.device, images, side)
                passes[name]()
        evaluation = self.time(passes, 20, 9)
        data = random_digits(16 if self.quick else 2000, side)
        unit: float | None = None
        for algorithm, variants in VARIANTS.items():
            with ExitStack() as stack:
                steps: dict[str, Step] = {}
                if algorithm != "erm":
                    steps["ERM"] = digits_step(stack, data, "erm", self.device, compiled=False, quick=self.quick)
                for name, patches in variants.items():
                    compiled = "compiled" in name
                    if compiled and (self.quick or self.late):
                        continue
                    with replaced(patches):
                        try:
                            step = digits_step(stack, data, algorithm, self.device, compiled=compiled, quick=self.quick)
                            step()
                        except Exception as error:  # one variant that fails should not lose the others
                            print(f"{algorithm}, {name}: {type(error).__name__}: {error}", flush=True)
                            continue
                    steps[name] = step
                times = self.time(steps, 100, 15)
            passed = RUN_RECORDS * RUN_IMAGES / EVALUATED
            if unit is None:  # ERM comes first
                unit = RUN_STEPS * times["as it is"] + passed * evaluation["as it is"]
                self.add("evaluation of 4096 images", evaluation, share(evaluation, passed, unit))
            self.add(f"ColoredMNIST step, {algorithm}", times, share(times, RUN_STEPS, unit))

    def vit(self) -> None:
        """ViT-S/16: the penalty of its batch alone, and the captured step."""
        variants = {name: patches for name, patches in PENALTY_VARIANTS.items() if "compiled" not in name}
        for classes in (65, 7):
            size = BatchSize(6, 16, classes, 3) if self.quick else BatchSize(96, 384, classes, 3)
            for title, make in penalties(size).items():
                alone: dict[str, Step] = {}
                for name, patches in variants.items():
                    with replaced(patches):
                        alone[name] = penalty_alone(make, size, self.device)
                self.add(f"{title} alone, {size}", self.time(alone, 50, 15))
        if self.quick:
            return
        size = BatchSize(96, 384, 7, 3)
        steps = {"ERM": captured(training_step(vit_small, size, self.device, None, half=True))}
        for title, make in penalties(size).items():
            for name, patches in variants.items():
                with replaced(patches):
                    penalty = from_head(make(), self.device)
                    steps[f"{title}, {name}"] = captured(
                        training_step(vit_small, size, self.device, penalty, half=True)
                    )
        self.add("ViT-S/16 step, 7 classes", self.time(steps, 5, 9))

    def time(self, steps: Mapping[str, Step], calls: int, rounds: int) -> dict[str, float]:
        """Median milliseconds of each step."""
        return milliseconds(steps, self.device, 1 if self.quick else calls, 1 if self.quick else rounds)


def share(times: Mapping[str, float], number: float, unit: float) -> dict[str, float]:
    """Per cent of a whole run that each variant adds to it."""
    base = times["as it is"]
    return {name: 100 * number * (value - base) / unit for name, value in times.items()}


def penalties(size: BatchSize) -> dict[str, Callable[[], Any]]:
    """The penalties whose step on ViT-S is measured."""
    return {
        "CMA": lambda: CMA(1.0, 0.1, route="gram", validate=False, num_domains=size.K),
    }


def penalty_alone(make: Callable[[], Any], size: BatchSize, device: torch.device) -> Step:
    """A penalty forward and backward from features and logits, captured on CUDA."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(size.n, size.d, generator=generator).to(device).requires_grad_()
    logits = torch.randn(size.n, size.C, generator=generator).to(device).requires_grad_()
    targets = torch.randint(size.C, (size.n,), generator=generator).to(device)
    domains = torch.arange(size.n, device=device) % size.K
    penalty = make().to(device)

    def run() -> object:
        value = penalty(features, logits, targets, domains)
        return torch.autograd.grad(value, (features, logits), allow_unused=True)

    if device.type != "cuda":
        run()
        return run
    return captured(run)


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/kernels.json"), help="JSON file for the numbers")
    parser.add_argument("--quick", action="store_true", help="tiny batches and few steps")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=200.0, help="no more torch.compile after so many seconds")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    torch.backends.cudnn.benchmark = device.type == "cuda" and not arguments.quick
    study = Study(device, quick=arguments.quick, seconds=arguments.seconds, out=arguments.out)
    for part in (study.digits, study.vit):
        try:
            part()
        except Exception as error:
            if arguments.quick:
                raise
            print(f"{part.__name__}: {type(error).__name__}: {error}", flush=True)
    print(f"\nWrote {len(study.rows)} rows to {study.out} in {time.monotonic() - study.begun:.0f} s.")


if __name__ == "__main__":
    main()
