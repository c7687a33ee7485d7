"""The paper's table of time and memory: methods by data sets, with the published numbers."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from rich.console import Group
from rich.table import Table

from momentalign.bench._baselines import HeadPenalty
from momentalign.bench._measure import Measurement, measure_in_turns
from momentalign.bench._penalty import BatchSize, from_head
from momentalign.bench._results import BenchmarkGroup, BenchmarkRow
from momentalign.bench._step import MakeEncoder, mnist_cnn, training_step, vit_small
from momentalign.penalties import CMA, CORAL, HGP, DomainPenalty, Fishr, Hutchinson, PenaltyOptions
from momentalign.published import published_costs

_TABLE = "paper's table"


@dataclass(frozen=True)
class _CostSet:
    """Batch sizes, classes and encoder of a data set; images are random."""

    name: str
    title: str
    per_domain: int
    K: int
    C: int
    encoder: MakeEncoder

    @property
    def size(self) -> BatchSize:
        return BatchSize(self.per_domain * self.K, 384 if self.encoder is vit_small else 128, self.C, self.K)


_SETS = (
    _CostSet("colored-mnist", "ColoredMNIST (2)", 64, 2, 2, mnist_cnn),
    _CostSet("rotated-mnist", "RotatedMNIST (10)", 64, 5, 10, partial(mnist_cnn, 1)),
    _CostSet("vlcs", "VLCS (5)", 32, 3, 5, vit_small),
    _CostSet("pacs", "PACS (7)", 32, 3, 7, vit_small),
    _CostSet("terra-incognita", "TerraIncognita (10)", 32, 3, 10, vit_small),
    _CostSet("office-home", "OfficeHome (65)", 32, 3, 65, vit_small),
)
# The paper calls the diagonal methods approximate, but lists Hutchinson, one of them, as exact.
_METHODS = {
    "erm": ("no matching", "ERM"),
    "coral": ("means and covariances of features", "CORAL"),
    "fishr": ("diagonal or product", "Fishr"),
    "hgp": ("diagonal or product", "HGP"),
    "hutchinson": ("diagonal or product", "Hutchinson, sampled"),
    "hutchinson-exact": ("diagonal or product", "Hutchinson, exact diagonal"),
    "cma-speed": ("exact second order", "CMA (speed): direct"),
    "cma-memory": ("exact second order", "CMA (memory): pairwise"),
    "cma": ("exact second order", "CMA: Gram route"),
}
_DRAWS = 300


def paper_plan(device: torch.device, *, quick: bool, memory_limit: int) -> Iterator[BenchmarkGroup]:
    """Whole training steps in float32 on random images, a group for each data set; `quick` takes the digits alone."""
    # On a CPU a step of ViT-S takes half a minute: one warms up, one is timed.
    budget = 0.2 if quick else 1.5 if device.type == "cuda" else 0.5
    for data in _SETS[:2] if quick else _SETS:
        draws = 3 if quick else _DRAWS
        yield BenchmarkGroup(f"training step, {data.title}", partial(_rows, data, device, budget, memory_limit, draws))


def _rows(data: _CostSet, device: torch.device, budget: float, memory_limit: int, draws: int) -> list[BenchmarkRow]:
    size = data.size
    penalties: dict[str, HeadPenalty | None] = {"erm": None}
    notes: dict[str, str] = {}
    for name, penalty in _penalties(size, draws).items():
        need, note = _need(name, size)
        if need > memory_limit:
            notes[name] = note
        else:
            penalties[name] = from_head(penalty, device)
    steps = {name: training_step(data.encoder, size, device, penalty) for name, penalty in penalties.items()}
    fixed = _fixed_bytes(data)
    measured = {
        name: Measurement(value.seconds, value.peak_bytes + fixed)
        for name, value in measure_in_turns(steps, device, budget).items()
    }
    return [
        BenchmarkRow.of(_TABLE, data.name, name, measured[name], measured["erm"])
        if name in measured
        else BenchmarkRow(_TABLE, data.name, name, note=notes[name])
        for name in _METHODS
    ]


def _penalties(size: BatchSize, draws: int) -> dict[str, DomainPenalty]:
    options: PenaltyOptions = {"validate": False, "num_domains": size.K}
    return {
        "coral": CORAL(**options),
        "fishr": Fishr(**options),
        "hgp": HGP(**options),
        "hutchinson": Hutchinson(samples=draws, **options),
        "hutchinson-exact": Hutchinson(**options),
        "cma-speed": CMA(route="direct", **options),
        "cma-memory": CMA(route="pairwise", **options),
        "cma": CMA(route="gram", **options),
    }


def _need(name: str, size: BatchSize) -> tuple[int, str]:
    """Estimated bytes of a penalty beyond those of the step, and the note for a penalty that needs too many."""
    need = {"cma-speed": size.direct_bytes(), "cma-memory": size.pairwise_bytes()}.get(name, 0)
    if need is None:
        return sys.maxsize, f"the direct route refuses Hessians of {size.C} classes, not run"
    return need, f"needs about {need / 2**30:.2g} GiB, not run"


def _fixed_bytes(data: _CostSet) -> int:
    """Bytes allocated before a step: parameters, their two moments in Adam, and the images."""
    body, shape, width = data.encoder()
    parameters = sum(parameter.numel() for parameter in body.parameters()) + (width + 1) * data.C
    return 4 * (3 * parameters + data.size.n * torch.Size(shape).numel())


def paper_table(rows: Iterable[BenchmarkRow], device: torch.device) -> Group:
    """Rows of :func:`paper_plan` in the paper's layout: seconds and GiB of a step, above the published ones."""
    measured = {(row.size, row.name): row for row in rows if row.table == _TABLE}
    sets = [data for data in _SETS if any(size == data.name for size, _ in measured)]
    title = f"Training step: seconds / GiB on {device}, below them the published seconds / GB"
    table = Table(title=title, title_justify="left", show_lines=False)
    table.add_column("")
    for data in sets:
        table.add_column(data.title, justify="right")
    published = published_costs()
    kind = ""
    for name, (family, label) in _METHODS.items():
        if family != kind:
            table.add_section()
            table.add_row(f"[italic]{family}[/italic]")
            kind = family
        table.add_row(f"  {label}", *(_measured_cell(measured.get((data.name, name))) for data in sets))
        if name in published:
            pairs = (published[name].get(data.name) for data in sets)
            table.add_row("    published", *(_published_cell(pair) for pair in pairs), style="dim")
    notes = dict.fromkeys(row.note for row in measured.values() if row.note)
    lines = [
        "Published: on RTX 6000, with code that runs the encoder twice in a step of CMA. The paper lists Hutchinson",
        f"as exact second order, but it estimates a diagonal, here too with {_DRAWS} draws (3 with --quick).",
        "Measured: one forward pass, float32; memory includes parameters and Adam's moments; images are random, so",
        "that loading and augmentation are not included.",
    ]
    if device.type == "cpu":
        lines.append("On a CPU few steps are timed, one where a step takes seconds: compare ratios, not seconds.")
    lines += [f"–: {note}." for note in notes]
    return Group(table, *lines)


def _measured_cell(row: BenchmarkRow | None) -> str:
    if row is None or row.seconds is None or row.peak_bytes is None:
        return "–"
    return f"{row.seconds:.3g} / {row.peak_bytes / 2**30:.3g}"


def _published_cell(pair: tuple[float | None, float] | None) -> str:
    if pair is None:
        return "–"
    seconds, memory = pair
    return f"{'–' if seconds is None else format(seconds, '.3g')} / {memory:.3g}"
