"""Overhead of a sweep: reading its runs, tables, the report page, and the engine between two runs."""

import itertools
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from momentalign.algorithms import draw_hyperparameters, find_algorithm
from momentalign.bench._measure import cpu_clock
from momentalign.bench._results import BenchmarkGroup, BenchmarkRow
from momentalign.runs import Record, RunConfig, RunFolder
from momentalign.training import peak_memory, run

_SETS = {"colored-mnist": 3, "rotated-mnist": 6, "vlcs": 4, "pacs": 4, "terra-incognita": 4}
_ALGORITHMS = ("erm", "coral", "fishr", "cma")
_PAGE, _ENGINE = "tables and page of a sweep", "engine of a sweep"


def sweep_plan(device: torch.device, *, quick: bool, memory_limit: int) -> Iterator[BenchmarkGroup]:
    """Tables and page of synthetic runs, as many as the paper's fine-tuning has, and the engine's overhead.

    Everything runs on the host, whatever the device.
    """
    records, trials = (3, 1) if quick else (51, 3)
    yield BenchmarkGroup("tables and page", partial(page_rows, records, trials))
    yield BenchmarkGroup("local engine", partial(engine_rows, 4 if quick else 30))


def page_rows(records: int, trials: int) -> list[BenchmarkRow]:
    """Time of reading, tables and page, in units of reading; memory is the process's peak until then."""
    from momentalign.report import accuracy_table, write_report
    from momentalign.selection import read_runs

    with tempfile.TemporaryDirectory() as folder:
        number = write_synthetic_runs(Path(folder, "runs"), records, trials)
        size, page = f"{number:,} runs, {records} records each", Path(folder, "report.html")
        measured: list[tuple[str, float, int]] = []
        clock = cpu_clock()

        def time_call(name: str, function: Callable[[], Any]) -> Any:
            started_at = clock()
            result = function()
            seconds = clock() - started_at
            measured.append((name, seconds, int(peak_memory(torch.device("cpu")).get("memory_gib", 0.0) * 2**30)))
            return result

        sweep = time_call("read", lambda: read_runs(Path(folder, "runs")))
        for rule in ("training-domain", "oracle"):
            time_call(f"table, {rule}", partial(accuracy_table, sweep, rule))
        time_call("page", partial(write_report, sweep, page))
        notes = {"page": f"a file of {page.stat().st_size / 1e6:.1f} MB"}
    unit = measured[0][1]
    return [
        BenchmarkRow(_PAGE, size, name, seconds, memory, seconds / unit, note=notes.get(name, ""))
        for name, seconds, memory in measured
    ]


def engine_rows(number: int) -> list[BenchmarkRow]:
    """Seconds of a short run, called directly and by the local engine with one process."""
    from momentalign.sweep import LocalEngine, make_plan, run_sweep

    plan = make_plan(["colored-digits"], ["erm"], trials=number, hparams=1, test_domains=["-90%"], steps=20)
    with tempfile.TemporaryDirectory() as folder:
        run(plan.runs[0], Path(folder, "first"), accelerator="cpu")  # warm-up
        started_at = time.perf_counter()
        for config in plan.runs:
            run(config, Path(folder, "direct", config.hash()), accelerator="cpu")
        direct = (time.perf_counter() - started_at) / number
        engine = LocalEngine(1, accelerator="cpu")
        try:
            few = make_plan(["colored-digits"], ["erm"], trials=1, hparams=1, test_domains=["+90%"], steps=20)
            started_at = time.perf_counter()
            run_sweep(few, Path(folder, "warm"), engine)
            started = time.perf_counter() - started_at
            started_at = time.perf_counter()
            tally = run_sweep(plan, Path(folder, "swept"), engine)
            swept = (time.perf_counter() - started_at) / number
        finally:
            engine.close()
    assert tally.finished == number
    size = f"{number} runs of 20 steps"
    return [
        BenchmarkRow(_ENGINE, size, "a run, called", direct, time_ratio=1.0),
        BenchmarkRow(
            _ENGINE,
            size,
            "a run, by the engine",
            swept,
            time_ratio=swept / direct,
            note=f"{swept - direct:+.4f} s a run",
        ),
        BenchmarkRow(_ENGINE, size, "first run of a worker process", started, time_ratio=started / direct),
    ]


def write_synthetic_runs(out: Path, records: int, trials: int) -> int:
    """Write run folders with synthetic numbers, and return how many.

    Args:
        out: Parent of the folders.
        records: Records of each run.
        trials: Runs of each algorithm, test domain and set of hyper-parameters.
    """
    number = 0
    for name, domains in _SETS.items():
        names = [f"domain {k}" for k in range(domains)]
        for algorithm, test, seed, trial in itertools.product(_ALGORITHMS, names, range(5), range(trials)):
            spec = find_algorithm(algorithm)
            hparams = draw_hyperparameters(spec.space("image", 5001), seed)
            config = RunConfig(name, algorithm, (test,), trial, seed, hparams, records * 100, 100)
            folder = RunFolder(out / config.hash(), config)
            try:
                folder.begin(domains=names, classes=("0", "1"), device="cpu")
                for index in range(records):
                    folder.append(list(_synthetic_records(names, index * 100, number)))
                folder.finish()
            finally:
                folder.close()
            number += 1
    return number


def _synthetic_records(names: list[str], step: int, seed: int) -> Iterator[Record]:
    """Accuracies of every domain's two splits, then losses, moments and times."""
    for index, (domain, split) in enumerate(itertools.product(names, ("in", "out"))):
        value = 0.5 + 0.4 * math.sin(seed + index) * step / (step + 500)
        yield {"step": step, "domain": domain, "split": split, "metric": "accuracy", "value": value}
    for index, metric in enumerate(("loss", "gradient", "hessian", "moment_gap_1", "moment_gap_2", "step_seconds")):
        value = math.exp(math.sin(seed + index) - step / 2000)
        yield {"step": step, "domain": None, "split": None, "metric": metric, "value": value}
