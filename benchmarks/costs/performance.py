"""Tables of docs/performance.md: what `momentalign bench` and the scripts that time searches and kernels measured."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from benchmarks.ablation.factors import CHANGES, DEFAULT
from benchmarks.ablation.page import PAGE as ABLATION
from benchmarks.ablation.page import runs_of_factor
from benchmarks.costs.page import PAGE as COSTS
from benchmarks.costs.page import cma_span, span
from benchmarks.costs.rows import PERFORMANCE
from benchmarks.markdown import table
from benchmarks.pages import PageContent, StudyPage
from benchmarks.records import Line
from momentalign.bench._results import _UNITS

UNITS = {
    **_UNITS,
    "eager call": "× cross-entropy",
    "kernels": "× with kernels",
    "searches": "× scikit-learn's",
    "worst groups": "× plain",
}
"""Headings of the ratios by table; all others are in units of ERM."""
CUDA = {
    "cuda-bench": (
        ("whole step", "whole step, bf16, captured", "eager call", "penalty alone", "growth", "launches", "many tiles"),
        "momentalign bench --device cuda --memory 100 --out bench.json",
    ),
    "cuda-training": (("training run",), "momentalign bench --training --device cuda --out bench.json"),
    "cuda-fine-tuning": (("fine-tuning step",), "python -m benchmarks.steps ENCODER --out bench.json"),
    "kernels": (("kernels",), "python -m benchmarks.kernels --out bench.json"),
}
"""Blocks measured on a GPU: how the names of their tables begin, and the command."""
TIMED_RUNS = ("no penalty (ERM)", DEFAULT.change, "diagonals of the Hessians", "momentum 0.95, weights / 20")
"""Changes of the ablation whose whole runs are shown."""


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """Tables by accelerator and kind, and the numbers on a GPU that other records have."""
    lines = sorted(records["performance"], key=lambda line: line["index"])
    cpu = {name: rows_of(lines, "cpu", name) for name in dict.fromkeys(line["table"] for line in lines)}
    standard, steps = "momentalign bench --out bench.json", cpu.get("whole step", [])
    sizes = list(dict.fromkeys(line["size"] for line in steps))
    blocks = {
        "vit-time": cma_span(records["costs"], "seconds", "vit"),
        "vit-memory": cma_span(records["costs"], "peak_bytes", "vit"),
        "digits-time": cma_span(records["costs"], "seconds", "digits"),
        "runs": run_table(records["ablation"]),
        **{
            block: one_table_each((line for name in names for line in rows_of(lines, "cuda", name)), command)
            for block, (names, command) in CUDA.items()
        },
        "conditions": conditions(line for group in cpu.values() for line in group),
        "cpu-penalty": one_table_each(cpu.get("penalty alone", []), standard),
        "cpu-growth": one_table_each(cpu.get("growth", []), standard),
        "cpu-step": one_table_each((line for line in steps if line["size"] in sizes[:1]), standard),
        "cpu-small-step": one_table_each((line for line in steps if line["size"] in sizes[1:]), standard),
        "linear": crossed_table(cpu.get("linear fit", []), standard, ratios=True),
        "grid": crossed_table(
            cpu.get("probing grid", []), "momentalign bench --probing-grid --out bench.json", ratios=False
        ),
        "grid-memory": span(line["memory_ratio"] for line in cpu.get("probing grid", [])),
        "searches": crossed_table(
            cpu.get("searches", []), "python -m benchmarks.estimators.speed --out bench.json", ratios=True
        ),
        "groups": one_table_each(cpu.get("worst groups", []), "benchmarks.groups.speed of commit b48b71d"),
        "sweep-page": one_table_each(
            cpu.get("tables and page of a sweep", []), "momentalign bench --sweeps --out bench.json"
        ),
    }
    return PageContent(blocks)


def small_step(lines: Iterable[Line], name: str = "CMA, gram") -> float | None:
    """Time of a small network's step with a penalty on a CPU, in units of ERM's."""
    found = [line for line in rows_of(lines, "cpu", "whole step") if line["name"] == name]
    return max(found, key=lambda line: line["index"])["time_ratio"] if found else None


def rows_of(lines: Iterable[Line], accelerator: str, name: str) -> list[Line]:
    """Rows of the tables that have a name, or begin with it and go on after a comma if it is a training run."""
    return [
        line
        for line in lines
        if line["accelerator"] == accelerator
        and (line["table"] == name or (name == "training run" and line["table"].startswith(f"{name}, ")))
    ]


def one_table_each(lines: Iterable[Line], command: str) -> str:
    """A table for each kind, of several sizes only if each has one row; what to run if there is nothing."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line["table"], "" if line["table"] == "growth" else line["size"]), []).append(line)
    if not groups:
        return not_measured(command)
    return "\n\n".join(measured_table(group) for group in groups.values())


def not_measured(command: str) -> str:
    """What a block without records says."""
    return f"*Nothing was measured yet with this code:* `{command}`"


def measured_table(lines: Sequence[Line]) -> str:
    """Time, memory and their ratios, without columns that have no number; notes stand beside the name."""
    first = lines[0]
    names = {line["name"] for line in lines}
    label = "size" if len(names) == 1 and len(lines) > 1 else "name"
    heading = first["name"] if label == "size" else ", ".join((first["table"], first["size"]))
    unit = UNITS.get(first["table"], "× ERM")
    long = statistics.median(line["seconds"] or 0 for line in lines) >= 1
    columns = {
        ("s" if long else "ms"): [_scaled(line["seconds"], 1 if long else 1e3) for line in lines],
        unit: [_scaled(line["time_ratio"]) for line in lines],
        "MiB": [_scaled(line["peak_bytes"], 2**-20) for line in lines],
        f"{unit}, memory": [_scaled(line["memory_ratio"]) for line in lines],
    }
    shown = {head: cells for head, cells in columns.items() if any(cells)}
    texts = [f"{line[label]}: {line['note']}" if line["note"] else line[label] for line in lines]
    return table([heading, *shown], zip(texts, *shown.values(), strict=True))


def crossed_table(lines: Sequence[Line], command: str, *, ratios: bool) -> str:
    """One row for each size: seconds of everything, or of the first and the others in its units."""
    if not lines:
        return not_measured(command)
    cells = {(line["size"], line["name"]): line for line in lines}
    sizes, names = ([*dict.fromkeys(line[field] for line in lines)] for field in ("size", "name"))
    heads = [f"{name}, ×" if ratios and name != names[0] else f"{name}, s" for name in names]
    rows = [
        [
            size,
            *(
                _scaled(cells[size, name]["time_ratio" if head.endswith("×") else "seconds"])
                for name, head in zip(names, heads, strict=True)
            ),
        ]
        for size in sizes
    ]
    return table([lines[0]["table"], *heads], rows)


def conditions(lines: Iterable[Line]) -> str:
    """Versions, threads and clock of what was measured on a CPU."""
    facts: list[str] = []
    for line in lines:
        versions = line["versions"]
        threads = f"{versions['threads']} thread{'s' if versions['threads'] > 1 else ''}"
        named = [f"{name} {versions[name]}" for name in ("torch", "scikit-learn") if name in versions]
        facts += [*named, line["device"], threads, versions["clock"]]
    return ", ".join(dict.fromkeys(facts)) or "nothing was measured yet"


def run_table(lines: Sequence[Line]) -> str:
    """Seconds between beginning and end of whole runs of the ablation."""
    rows = []
    for factor in (DEFAULT, *CHANGES):
        if factor.change in TIMED_RUNS:
            seconds = sorted(_run_seconds(line) for line in runs_of_factor(factor, lines).values())
            rows.append([factor.change, ", ".join(f"{value:.0f}" for value in seconds) or "–"])
    return table(["change from CMA's defaults", "s of each run"], rows)


def _run_seconds(line: Line) -> float:
    started, finished = (datetime.fromisoformat(line["run"][name]) for name in ("started", "finished"))
    return (finished - started).total_seconds()


def _scaled(value: float | None, factor: float = 1.0) -> str:
    """Three significant digits, empty without a number."""
    if value is None:
        return ""
    scaled = value * factor
    digits = 0 if scaled >= 100 else 1 if scaled >= 10 else 2 if scaled >= 1 else 3
    return f"{scaled:,.{digits}f}"


PAGE = StudyPage(
    {"performance": PERFORMANCE, "costs": COSTS.files["costs"], **ABLATION.files}, make_page, ("performance.md",)
)
