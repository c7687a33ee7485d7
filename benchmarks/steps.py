"""Measure a fine-tuning step of an image encoder, captured in a CUDA graph and launched operation by operation.

    python -m benchmarks.steps data/encoders/mobilenet_v2 --size 112 --out steps.json

Images are random bytes on the device: three training domains of 32 images a step, DomainBed's augmentation, Adam. Every
line is a run of its own; the time is that of a step after the first record. `--profile` also lists the kernels of an
eager step by the time they take. On a CPU there is nothing to capture.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from momentalign.bench import BenchmarkRow, environment, write_benchmark
from momentalign.data import DomainDataset, Split
from momentalign.encoders import ImagePreprocessing
from momentalign.training import make_config, run

BATCH, DOMAINS, CLASSES = 32, 3, 7


def random_images(rows: int, size: int) -> DomainDataset:
    """Four domains of random bytes, a fifth of which are held out."""
    generator = torch.Generator().manual_seed(0)

    def split(number: int) -> Split:
        pixels = torch.randint(0, 256, (number, 3, size, size), dtype=torch.uint8, generator=generator)
        return Split(pixels, torch.arange(number) % CLASSES)

    domains = {name: {"in": split(rows), "out": split(rows // 4)} for name in "abcd"[: DOMAINS + 1]}
    return DomainDataset("random", CLASSES, domains, tuple(map(str, range(CLASSES))))


def step_seconds(data: DomainDataset, encoder: str, algorithm: str, precision: str, capture: bool, steps: int) -> float:
    """Seconds of a step between the first record and the last."""
    held_out = data.names[-1]
    config = make_config(
        data,
        algorithm,
        test_domains=[held_out],
        hparams={"batch_size": BATCH},
        steps=steps + 1,
        record_every=steps,
        encoder=encoder,
        precision=precision,
    )
    records = run(config, None, data=data, capture=capture)
    return next(record["value"] or 0.0 for record in records if record["metric"] == "step_seconds")


def augmentation_seconds(size: int, device: str, repetitions: int) -> tuple[float, float]:
    """Seconds of an augmentation until the host may go on, and until the device is done."""
    preprocessing = ImagePreprocessing(size)
    raw = torch.randint(0, 256, (BATCH * DOMAINS, 3, size, size), dtype=torch.uint8, device=device)
    preprocessing.augment(raw)
    _wait(device)
    begin = time.perf_counter()
    for _ in range(repetitions):
        preprocessing.augment(raw)
    host = time.perf_counter() - begin
    _wait(device)
    return host / repetitions, (time.perf_counter() - begin) / repetitions


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def profile(data: DomainDataset, encoder: str, precision: str, steps: int) -> str:
    """The kernels of eager steps, by the time they take."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    step_seconds(data, encoder, "erm", precision, False, steps)
    with record(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
        step_seconds(data, encoder, "erm", precision, False, steps)
    table: str = found.key_averages().table(sort_by="self_cuda_time_total", row_limit=25, max_name_column_width=80)
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and save; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=__doc__.splitlines()[0])
    parser.add_argument("encoder", help="as for momentalign train --encoder")
    parser.add_argument("--size", type=int, default=112, help="pixels of a side (default: 112)")
    parser.add_argument("--steps", type=int, default=100, help="steps that are timed (default: 100)")
    parser.add_argument("--rows", type=int, default=400, help="images of a domain (default: 400)")
    parser.add_argument("--algorithms", default="erm,cma,cma-momentum", help="default: erm,cma,cma-momentum")
    parser.add_argument("--out", type=Path, required=True, help="JSON file for the numbers")
    parser.add_argument("--profile", action="store_true", help="list the kernels of an eager step")
    given = parser.parse_args(arguments)
    cuda = torch.cuda.is_available()
    data, encoder = random_images(given.rows, given.size), f"{given.encoder}?size={given.size}"
    host, device = augmentation_seconds(given.size, "cuda" if cuda else "cpu", max(1, given.steps // 2))
    print(f"augmentation: {1e3 * host:.2f} ms of the host, {1e3 * device:.2f} ms in all\n")
    rows: list[BenchmarkRow] = []
    for precision in ("32", "bf16") if cuda else ("32",):
        erm = 0.0
        for capture in (True, False) if cuda else (False,):
            for algorithm in given.algorithms.split(","):
                seconds = step_seconds(data, encoder, algorithm, precision, capture, given.steps)
                erm = erm or seconds  # the first of the precision
                size = f"{Path(given.encoder).name}, {given.size} pixels, precision {precision}"
                name = f"{algorithm}, {'captured' if capture else 'operation by operation'}"
                rows.append(BenchmarkRow("fine-tuning step", size, name, seconds, time_ratio=seconds / erm))
                print(f"{size}, {name}: {1e3 * seconds:.2f} ms", flush=True)
                write_benchmark(given.out, rows, environment(torch.device("cuda" if cuda else "cpu")))
    if given.profile:
        print(profile(data, encoder, "32", min(40, given.steps)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
