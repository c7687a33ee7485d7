"""Run folders in the exact format of real ones, with invented numbers: for tests of selection, tables and the page."""

import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Record = dict[str, Any]


def record(step: int, metric: str, value: float, domain: str | None = None, split: str | None = None, **more) -> Record:
    return {"step": step, "domain": domain, "split": split, "metric": metric, "value": value, **more}


def make_config(**changes) -> dict[str, Any]:
    config = {
        "dataset": "colored-digits",
        "algorithm": "erm",
        "test_domains": ["-90%"],
        "trial": 0,
        "hparams_seed": 0,
        "hparams": {"lr": 1e-3, "weight_decay": 0.0, "batch_size": 64},
        "steps": 300,
        "record_every": 100,
        "encoder": None,
        "holdout": 0.2,
        "precision": "32",
        "setting": "finetune",
    }
    return {**config, **changes}


GROUP_ROWS = {
    split: {"landbird on land": 200, "landbird on water": 200, "waterbird on land": 60, "waterbird on water": 60}
    for split in ("train", "val", "test")
}


def write_run(
    parent: Path,
    config: dict[str, Any],
    records: Iterable[Record],
    *,
    name: str | None = None,
    domains: Sequence[str] = ("+90%", "+80%", "-90%"),
    classes: Sequence[str] = ("0", "1"),
    status: str = "finished",
    error: str | None = None,
    torn: bool = False,
    **changes,
) -> Path:
    """One run's folder; `changes` replace keys of run.json."""
    canonical = json.dumps(config, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:16]
    folder = parent / (name or digest)
    folder.mkdir(parents=True)
    about = {
        "format": 2,
        "momentalign": "0.2.0",
        "hash": digest,
        "config": config,
        "domains": list(domains),
        "num_classes": len(classes),
        "classes": list(classes),
        "status": status,
        "error": error,
        "started": "2026-01-01T10:00:00+00:00",
        "finished": "2026-01-01T10:00:09+00:00" if status == "finished" else None,
        "versions": {"python": "3.11.7", "torch": "2.11.0", "numpy": "2.3.0"},
        "device": "cpu",
    }
    (folder / "run.json").write_text(json.dumps({**about, **changes}, indent=1))
    text = "".join(json.dumps(line) + "\n" for line in records)
    (folder / "records.jsonl").write_text(text + ('{"step": 300, "dom' if torn else ""))
    return folder


def write_fake_sweep(
    folder: Path,
    *,
    dataset: str = "colored-digits",
    domains: Sequence[str] = ("+90%", "+80%", "-90%"),
    classes: Sequence[str] = ("0-4", "5-9"),
    algorithms: Sequence[str] = ("erm", "coral", "fishr", "hgp", "cma"),
    trials: int = 2,
    hparams: int = 2,
    steps: int = 300,
    record_every: int = 100,
    pairs: bool = False,
    failed: int = 0,
    unfinished: int = 0,
    torn: bool = False,
    seed: int = 0,
    **changes,
) -> list[Path]:
    """A sweep over single test domains, and pairs of them if told to.

    Of the runs, the first `failed` fail, the next `unfinished` stop halfway; `torn` tears the last line of one record
    file. `changes` replace keys of every run's configuration.
    """
    rng = np.random.default_rng(seed)
    tests = [[domain] for domain in domains]
    if pairs:
        tests += [list(pair) for pair in itertools.combinations(domains, 2)]
    folders = []
    for algorithm, test, trial, number in itertools.product(algorithms, tests, range(trials), range(hparams)):
        lr = 1e-3 if number == 0 else float(10 ** rng.uniform(-4.5, -2.5))
        hyper: dict[str, Any] = {"lr": lr, "weight_decay": 0.0, "batch_size": 64}
        if algorithm in ("cma", "hgp"):
            hyper |= {"gradient_weight": 5000.0, "hessian_weight": 1000.0, "anneal_steps": steps // 2}
        config = make_config(
            dataset=dataset,
            algorithm=algorithm,
            test_domains=test,
            trial=trial,
            hparams_seed=number,
            hparams=hyper,
            steps=steps,
            record_every=record_every,
        )
        status = "finished"
        if len(folders) < failed:
            status = "failed"
        elif len(folders) < failed + unfinished:
            status = "running"
        at = sorted({*range(0, steps, record_every), steps})
        at = at if status == "finished" else at[: len(at) // 2]
        folders.append(
            write_run(
                folder,
                {**config, **changes},
                list(_records(rng, at, steps, domains, test, algorithm)),
                domains=domains,
                classes=classes,
                status=status,
                error="RuntimeError: loss is not finite" if status == "failed" else None,
                torn=torn and len(folders) == failed,
            )
        )
    return folders


def write_fake_probes(
    folder: Path,
    *,
    dataset: str = "waterbirds",
    domains: Sequence[str] = ("land", "water"),
    groups: Sequence[str] = ("landbird on land", "landbird on water", "waterbird on land", "waterbird on water"),
    algorithms: Sequence[str] = ("erm", "cma"),
    hparams: int = 8,
    trials: int = 5,
    steps: int = 300,
    record_every: int = 100,
    seed: int = 0,
    measures: bool = False,
) -> list[Path]:
    """Linear probes of a data set with groups: a grid on trial 0, five sets on the other trials.

    With `measures` the runs also record the other measures over groups and the rows of each group.
    """
    rng = np.random.default_rng(seed)
    about = {"group_rows": GROUP_ROWS} if measures else {}
    folders = []
    for algorithm, number in itertools.product(algorithms, range(hparams)):
        for trial in range(trials if number < 5 else 1):
            config = make_config(
                dataset=dataset,
                algorithm=algorithm,
                test_domains=[],
                trial=trial,
                hparams_seed=number,
                hparams={"gradient_weight": 10.0**number, "hessian_weight": 10.0, "l2": 1e-4},
                steps=steps,
                record_every=record_every,
                setting="probe",
            )
            lines = []
            for step in sorted({*range(0, steps, record_every), steps}):
                for split in ("train", "val", "test"):
                    accuracy = 0.6 + 0.35 * step / steps * rng.uniform(0.8, 1, size=len(groups))
                    lines += [
                        record(step, "group_accuracy", value, split=split, group=name)
                        for name, value in zip(groups, accuracy, strict=True)
                    ]
                    lines.append(record(step, "worst_group_accuracy", accuracy.min(), split=split))
                    lines.append(record(step, "accuracy", accuracy.mean(), split=split))
                    if measures:
                        others = {"weighted_accuracy": accuracy.max(), "balanced_accuracy": accuracy.mean(),
                                  "worst_class_accuracy": accuracy.min(),
                                  "worst_group_f1": 0.7, "auroc": 0.9, "calibration_error": 0.05}  # fmt: skip
                        lines += [record(step, name, value, split=split) for name, value in others.items()]
                    lines += [record(step, "accuracy", accuracy.mean(), domain, split) for domain in domains]
                lines += _step_level(rng, step, steps, algorithm)
            classes = ("landbird", "waterbird")
            folders.append(write_run(folder, config, lines, domains=domains, classes=classes, **about))
    return folders


def _records(rng, at, steps, domains, test, algorithm):
    final = {domain: rng.uniform(0.5, 0.95) - 0.2 * (domain in test) for domain in domains}
    for step in at:
        for domain, split in itertools.product(domains, ("in", "out")):
            value = 0.5 + (final[domain] - 0.5) * (1 - np.exp(-3 * step / steps)) + rng.normal(0, 0.01)
            yield record(step, "accuracy", float(np.clip(value, 0, 1)), domain, split)
        yield from _step_level(rng, step, steps, algorithm)


def _step_level(rng, step, steps, algorithm):
    fall = float(np.exp(-2 * step / steps))
    lines = [record(step, "loss", 0.7 * fall + 0.01 * rng.random())]
    if algorithm in ("cma", "hgp"):
        lines += [record(step, "gradient", 0.1 * fall), record(step, "hessian", 0.05 * fall)]
    elif algorithm in ("coral", "fishr"):
        lines += [record(step, algorithm, 0.1 * fall)]
    lines += [
        record(step, "moment_gap_1", 2 * fall + 0.05 * rng.random()),
        record(step, "moment_gap_2", 5 * fall + 0.1 * rng.random()),
        record(step, "step_seconds", 0.008 + 0.001 * rng.random()),
        record(step, "memory_gib", 0.16),
    ]
    return lines


def write_domainbed_run(
    parent: Path, name: str, lines: Sequence[dict[str, Any]], *, done: bool = True, torn: bool = False, **args
) -> Path:
    """A run as DomainBed leaves it; `lines` hold step and env{i}_{in,out}_acc."""
    folder = parent / name
    folder.mkdir(parents=True)
    fixed = {
        "algorithm": "ERM",
        "dataset": "ColoredMNIST",
        "test_envs": [0],
        "trial_seed": 0,
        "hparams_seed": 0,
        "holdout_fraction": 0.2,
        "steps": None,
        "output_dir": str(folder),
        "seed": 123,
        "task": "domain_generalization",
        "uda_holdout_fraction": 0,
    }
    hparams = {"batch_size": 64, "lr": 0.001, "weight_decay": 0.0}
    text = ""
    for line in lines:
        timing = {"epoch": line["step"] / 100, "loss": 0.5, "step_time": 0.02, "mem_gb": 0.1}
        text += json.dumps({"args": {**fixed, **args}, "hparams": hparams, **timing, **line}, sort_keys=True) + "\n"
    (folder / "results.jsonl").write_text(text + ('{"args": {"alg' if torn else ""))
    if done:
        (folder / "done").write_text("done")
    return folder
