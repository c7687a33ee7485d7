"""Measure what alignment does to a network that is fine-tuned with it: the tables of docs/results/fine-tuning.md.

    python -m benchmarks.fine_tuning pacs --jobs 14 -o pacs.jsonl
    python -m benchmarks.fine_tuning digits -o digits.jsonl
    python -m benchmarks.fine_tuning tables -o tables.jsonl
    python -m benchmarks.fine_tuning show pacs.jsonl

ERM, CMA with relative scaling at several weights, and the published settings are trained on the same data, first
weights and batches. Seed 0 settles the weights; the other seeds confirm them. `pacs` fine-tunes a pretrained
MobileNetV2 end to end and wants a GPU, `digits` trains MNIST_CNN and `tables` an MLP, both from scratch. Finished runs
are lines of the output and are not repeated.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from momentalign.algorithms import find_algorithm
from momentalign.data import DomainDataset, ImageFiles, Split, load_dataset
from momentalign.training import make_config, run

SEEDS = (0, 1, 2)
SETTLING = 0
"""The seed that weights are settled on."""


@dataclass(frozen=True)
class Setting:
    """A row of the tables: an algorithm with hyper-parameters; `everywhere` runs it on all seeds, else on the first."""

    label: str
    algorithm: str = "cma"
    hparams: Mapping[str, Any] = field(default_factory=dict)
    everywhere: bool = False


def _relative(
    gradient: float, hessian: float, *, momentum: float = 0.0, anneal: int = 0, most: bool = False
) -> Setting:
    """CMA with relative scaling; all seeds if `most`."""
    values = {"gradient_weight": gradient, "hessian_weight": hessian, "scaling": "relative", "anneal_steps": anneal}
    label = f"relative {gradient:g}, {hessian:g}" + (f", momentum {momentum:g}" if momentum else "")
    label += f", annealing {anneal}" if anneal else ""
    if momentum:
        return Setting(label, "cma-momentum", {**values, "momentum": momentum}, most)
    return Setting(label, "cma", values, most)


def settings_of(steps: int) -> list[Setting]:
    """Rows of the study, the most informative first."""
    return [
        Setting("ERM", "erm", everywhere=True),
        _relative(1, 1, most=True),
        _relative(0.1, 0.1, most=True),
        _relative(1, 1, momentum=0.95, most=True),
        _relative(10, 10, most=True),
        _relative(1, 0, most=True),
        _relative(0, 1, most=True),
        Setting("published", "cma"),
        _relative(10, 10, momentum=0.95),
        _relative(0.1, 0.1, momentum=0.95),
        Setting("CMA's constructor: none 1, 1", "cma", _CONSTRUCTOR),
        Setting("README: none 1, 0.1", "cma", {**_CONSTRUCTOR, "hessian_weight": 0.1}),
        _relative(1, 1, anneal=steps // 2),
        Setting("published, momentum", "cma-momentum"),
        Setting("published, gradient matching", "gradient-matching"),
        Setting("published, Hessian matching", "hessian-matching"),
        _relative(10, 0),
        _relative(0, 10),
        _relative(100, 100),
        *(
            Setting(f"published, {find_algorithm(name).label}", name)
            for name in ("hutchinson", "hgp", "fishr", "irm", "vrex", "coral", "mmd", "iga")
        ),
    ]


_CONSTRUCTOR = {"gradient_weight": 1.0, "hessian_weight": 1.0, "scaling": "none", "anneal_steps": 0}


@dataclass(frozen=True)
class Job:
    """One training run: a setting on a data set without one of its domains."""

    dataset: str
    domain: str
    seed: int
    setting: Setting
    steps: int

    @property
    def key(self) -> tuple[object, ...]:
        """Identifies the run among the lines of a file."""
        return self.dataset, self.domain, self.seed, self.setting.label, self.steps


@dataclass(frozen=True)
class Study:
    """Data sets of one kind, with the length of their runs.

    Args:
        domains: Test domains of each data set.
        steps: Length of a run.
        encoder: Path of a pretrained encoder in the data folder, or None for the data set's default.
    """

    domains: Mapping[str, Sequence[str]]
    steps: int
    encoder: str | None = None


STUDIES = {
    "pacs": Study({"pacs": ("art_painting", "cartoon", "photo", "sketch")}, 400, "encoders/mobilenet_v2"),
    "digits": Study(
        {"rotated-digits": ("0", "15", "30", "45", "60", "75"), "colored-digits": ("+90%", "+80%", "-90%")}, 500
    ),
    "tables": Study(
        {
            "rand-doctor-visit": tuple(f"site_{k}" for k in range(1, 7)),
            "cannabis-country": ("Canada", "Other", "UK", "USA"),
            "penguin-sex": ("Adelie", "Chinstrap", "Gentoo"),
        },
        500,
    ),
}


def plan(study: str, steps: int | None = None, seeds: Sequence[int] = SEEDS) -> list[Job]:
    """List the runs of a study: settings that are confirmed on all seeds, then the others on the settling seed."""
    length, jobs = steps or STUDIES[study].steps, []
    for everywhere in (True, False):
        for seed in seeds if everywhere else {SETTLING} & set(seeds):
            settings = [setting for setting in settings_of(length) if setting.everywhere == everywhere]
            cases = [(name, domain) for name, domains in STUDIES[study].domains.items() for domain in domains]
            jobs += [Job(*case, seed, setting, length) for setting in settings for case in cases]
    return jobs


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
    with ThreadPoolExecutor() as pool:
        pixels = list(pool.map(lambda row: files.decode(row, size), range(len(files))))
    torch.save({"names": files.names, "pixels": torch.stack(pixels)}, folder / "decoded.pt")


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


def tables(lines: Sequence[Mapping[str, Any]], score: str = "last") -> list[str]:
    """Markdown tables, settling and confirming seeds apart: differences from ERM in points, by data set."""
    text: list[str] = []
    for dataset in dict.fromkeys(line["dataset"] for line in lines):
        for confirming in (False, True):
            chosen = [x for x in lines if x["dataset"] == dataset and (x["seed"] != SETTLING) == confirming]
            cells = {(x["setting"], x["domain"], x["seed"]): 100 * x[score] for x in chosen}
            domains = list(dict.fromkeys(x["domain"] for x in sorted(chosen, key=lambda x: str(x["domain"]))))
            seeds = sorted({x["seed"] for x in chosen})
            if not chosen:
                continue
            title = "confirmed on" if confirming else "settled on"
            what = "averaged weights, last record" if score == "averaged" else f"{score} record"
            text += ["", f"{dataset}, {title} seed {', '.join(map(str, seeds))} ({what})", ""]
            text += [f"| setting | {' | '.join(domains)} | mean − ERM | worst − ERM | runs |"]
            text += ["|---|" + "--:|" * (len(domains) + 3)]
            for setting in dict.fromkeys(x["setting"] for x in chosen):
                found = {key: value for key, value in cells.items() if key[0] == setting and ("ERM", *key[1:]) in cells}
                gains = [value - cells["ERM", key[1], key[2]] for key, value in found.items()]
                means = [[value for key, value in found.items() if key[1] == name] for name in domains]
                shown = [f"{statistics.fmean(values):.1f}" if values else "" for values in means]
                mean, worst = (f"{statistics.fmean(gains):+.2f}", f"{min(gains):+.1f}") if gains else ("", "")
                text.append(f"| {setting} | {' | '.join(shown)} | {mean} | {worst} | {len(gains)} |")
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the missing runs of a study, print its tables, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fine_tuning", description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=[*STUDIES, "show"])
    parser.add_argument("files", nargs="*", type=Path, help="for show: finished runs")
    parser.add_argument("-o", "--out", type=Path, default=Path("fine_tuning.jsonl"), help="file of finished runs")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once (default: 1)")
    parser.add_argument("--steps", type=int, help="length of a run (default: the study's)")
    parser.add_argument("--seeds", default="0,1,2", help="seeds (default: 0,1,2)")
    parser.add_argument("--only", default="", help="settings whose label starts with one of these, separated by ';'")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no run after this time")
    parser.add_argument(
        "--data", default=os.environ.get("MOMENTALIGN_DATA"), help="folder (default: $MOMENTALIGN_DATA)"
    )
    given = parser.parse_args(arguments)
    if given.study == "show":
        lines = [line for file in given.files for line in _read(file)]
        print("\n".join([*tables(lines), *tables(lines, "averaged"), *tables(lines, "selected")]))
        return 0
    if given.data is None:
        parser.error("no data folder: pass --data or set MOMENTALIGN_DATA.")
    root, study, until = Path(given.data), STUDIES[given.study], time.time() + given.seconds
    done = {tuple(line[k] for k in ("dataset", "domain", "seed", "setting", "steps")) for line in _read(given.out)}
    wanted = tuple(given.only.split(";"))
    jobs = plan(given.study, given.steps, [int(seed) for seed in given.seeds.split(",")])
    jobs = [job for job in jobs if job.key not in done and job.setting.label.startswith(wanted)]
    with tempfile.TemporaryDirectory() as folder, given.out.open("a", encoding="utf-8") as out:
        images = Path(folder) if given.study == "pacs" else None
        encoder = None if study.encoder is None else f"{root / study.encoder}?size=112"
        if images is not None and jobs:
            decode_images(root / "pacs/PACS_112px_q85.tar", images, 112)
        options: dict[str, Any] = {"encoder": encoder, "images": images, "until": until}
        for number, line in enumerate(run_jobs(jobs, root, processes=given.jobs, **options), 1):
            out.write(json.dumps(line) + "\n")
            out.flush()
            what = f"{line['dataset']} {line['domain']} {line['seed']} {line['setting']}"
            left = until - time.time()
            print(f"{number}/{len(jobs)} {what}: {line['last']:.3f} {line['seconds']} s, {left:.0f} s left", flush=True)
    print("\n".join(tables(_read(given.out))))
    return 0


def _read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


if __name__ == "__main__":
    sys.exit(main())
