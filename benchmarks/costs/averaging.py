"""Time of a training step with and without an average of the weights.

    python -m benchmarks.costs.averaging --out averaging.jsonl

Runs of a data set take turns, without records in between; of each kind the first run is not counted. Where
runs differ by more than an average takes, what tells is the addition of the weights timed on its own.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import nn

from benchmarks.records import Line
from momentalign._files import atomic_write
from momentalign.algorithms import Algorithm, make_average
from momentalign.bench import environment
from momentalign.training import Clock, make_config, run

KINDS = (("erm", "none"), ("erm", "ema"), ("erm", "sma"), ("erm", "swad"), ("cma", "none"), ("cma", "sma"))
"""Algorithms and averages that take turns."""


def step_times(dataset: str, test_domain: str, steps: int, repeats: int, precision: str) -> Iterator[Line]:
    """One record for each kind: milliseconds of a step, the median over runs and the fastest, and of an addition."""
    times: dict[tuple[str, str], list[float]] = {kind: [] for kind in KINDS}
    built: list[Algorithm] = []
    for repeat in range(repeats + 1):
        for (algorithm, average), found in times.items():
            config = make_config(
                dataset,
                algorithm,
                test_domains=[test_domain],
                steps=steps,
                record_every=steps,
                average=average,
                precision=precision,
            )
            clock = Clock()
            run(config, None, clock=clock, train_accuracy=False, built=built.append)
            if repeat:
                found.append(1e3 * clock.seconds["steps"] / steps)
    versions = environment(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    device = versions.pop("device")
    for (algorithm, average), found in times.items():
        yield {
            "dataset": dataset,
            "algorithm": algorithm,
            "average": average,
            "steps": steps,
            "repeats": repeats,
            "precision": precision,
            "median": statistics.median(found),
            "fastest": min(found),
            "addition": 0.0 if average == "none" else addition_time(built[-1].network, average),
            "device": device,
            "versions": versions,
        }


def addition_time(network: nn.Module, average: str, repeats: int = 200) -> float:
    """Milliseconds in which weights are added to an average, launched on its own; the median."""
    weights = make_average(average, network, steps=5001)
    assert weights is not None
    on_gpu = next(network.parameters()).is_cuda
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        weights.add()
        if on_gpu:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs.averaging", description=__doc__)
    parser.add_argument("--dataset", default="colored-mnist")
    parser.add_argument("--test-domain", default="-90%")
    parser.add_argument("--steps", type=int, default=3001)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    lines = list(step_times(given.dataset, given.test_domain, given.steps, given.repeats, given.precision))
    for line in lines:
        print(
            f"{line['algorithm']} {line['average']}: {line['median']:.4f} ms, fastest {line['fastest']:.4f}, "
            f"addition {line['addition']:.4f}"
        )
    atomic_write(given.out, "".join(json.dumps(line) + "\n" for line in lines).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
