"""Runs of the study, in processes of one thread each."""

import json
import multiprocessing
import statistics
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from benchmarks.fine_tuning.settings import STUDIES, Job
from momentalign.data import DomainDataset, ImageFiles, Split, load_dataset
from momentalign.runs import read_run
from momentalign.training import make_config, run


def execute(job: Job, root: Path, images: Path | None, encoder: str | None) -> dict[str, Any]:
    """Train one run and describe it: accuracy on the test domain at the last record, averaged and selected."""
    data = _load(job.dataset, job.seed, root, images)
    config = make_config(
        data,
        job.setting.algorithm,
        test_domains=[job.domain],
        trial=job.seed,
        hparams=job.setting.hparams,
        steps=job.steps,
        record_every=max(1, job.steps // 4),
        encoder=encoder,
        average="sma",
        preset="published",
    )
    started = time.perf_counter()
    curve: dict[int, dict[str, float]] = {}
    averaged: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        run(config, folder, data=data, save=False)
        info = read_run(Path(folder))
        for line in Path(folder, "records.jsonl").read_text().splitlines():
            record = json.loads(line)
            if record["metric"] in ("accuracy", "averaged_accuracy") and record["domain"] is not None:
                into = curve if record["metric"] == "accuracy" else averaged
                into.setdefault(record["step"], {})[f"{record['domain']}/{record['split']}"] = record["value"]
    steps = sorted(curve)
    tested = [curve[step][f"{job.domain}/in"] for step in steps]
    trained = [name for name in data.names if name != job.domain]
    validated = [statistics.fmean(curve[step][f"{name}/out"] for name in trained) for step in steps]
    return {
        "dataset": job.dataset,
        "domain": job.domain,
        "seed": job.seed,
        "setting": job.setting.label,
        "steps": job.steps,
        "last": tested[-1],
        "averaged": averaged[steps[-1]][f"{job.domain}/in"],
        "selected": tested[validated.index(max(validated))],
        "validation": validated[-1],
        "records": steps,
        "accuracies": {key: [round(curve[step][key], 5) for step in steps] for key in curve[steps[0]]},
        "rows": {name: len(data.domains[name]["out"]) for name in trained},
        "hparams": dict(config.hparams),
        "seconds": round(time.perf_counter() - started, 2),
        "versions": {"momentalign": info["momentalign"], **info["versions"]},
        "device": info["device"],
    }


@lru_cache(maxsize=3)
def _load(dataset: str, seed: int, root: Path, images: Path | None) -> DomainDataset:
    """A data set with the split of a seed; images are decoded to bytes, which a GPU can hold."""
    if images is not None:
        decoded = torch.load(images / "decoded.pt", mmap=True)
        index = {name: row for row, name in enumerate(decoded["names"])}

        def decode(rows: Split) -> Split:
            assert isinstance(rows.inputs, ImageFiles)
            return Split(decoded["pixels"][[index[name] for name in rows.inputs.names]], rows.targets)

        return load_dataset(images / dataset, trial=seed).map_splits(decode)
    if dataset in STUDIES["tables"].domains:
        import pandas

        table = pandas.read_parquet(root / "tables" / f"{dataset}.parquet").rename(columns={"target": "y"})
        with tempfile.TemporaryDirectory() as folder:
            table.to_parquet(Path(folder, f"{dataset}.parquet"))
            return load_dataset(Path(folder, f"{dataset}.parquet"), trial=seed)
    return load_dataset(dataset, trial=seed, root=root)


def decode_images(archive: Path, folder: Path, size: int) -> None:
    """Unpack an archive domain/class/image, and write all its images as bytes (3, size, size) to one file."""
    with tarfile.open(archive) as members:
        members.extractall(folder / "pacs", filter="data")
    data = load_dataset(folder / "pacs")
    parts = [rows.inputs for splits in data.domains.values() for rows in splits.values()]
    files = ImageFiles.joined([part for part in parts if isinstance(part, ImageFiles)])
    torch.save({"names": files.names, "pixels": files.decode_all(size)}, folder / "decoded.pt")


def run_jobs(
    jobs: Sequence[Job], root: Path, *, processes: int, encoder: str | None, images: Path | None, until: float
) -> Iterator[dict[str, Any]]:
    """Run jobs in processes of one thread each; none is started after the time `until`."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=_single_thread) as pool:
        running = [pool.submit(_execute_until, until, job, root, images, encoder) for job in jobs]
        for future in as_completed(running):
            if future.exception() is not None:  # one run of many: the others go on
                print(f"failed: {future.exception()!r}", file=sys.stderr, flush=True)
            elif (result := future.result()) is not None:
                yield result


def _single_thread() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


def _execute_until(until: float, job: Job, *arguments: Any) -> dict[str, Any] | None:
    return execute(job, *arguments) if time.time() < until else None
