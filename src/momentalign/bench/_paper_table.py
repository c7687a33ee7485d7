"""The paper's table of time and memory: methods by data sets, ours beside the published numbers."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from rich.console import Group
from rich.table import Table
from torch import nn

from momentalign import closed_form
from momentalign.bench._measure import Measurement, measure
from momentalign.bench._penalty import Size, ours
from momentalign.bench._rivals import Rival
from momentalign.bench._rows import Row
from momentalign.bench._run import Section
from momentalign.bench._step import Encoder, vit_small
from momentalign.bench._step import _step as training_step
from momentalign.encoders import MNIST_CNN
from momentalign.penalties import CMA, CORAL, HGP, DomainPenalty, Fishr, Hutchinson
from momentalign.published import published_costs

TABLE = "paper's table"


@dataclass(frozen=True)
class _Set:
    """A data set as far as its cost goes: a batch for each training domain, of random images."""

    name: str
    title: str
    per_domain: int
    K: int
    C: int
    encoder: Encoder

    @property
    def size(self) -> Size:
        return Size(self.per_domain * self.K, 384 if self.encoder is vit_small else 128, self.C, self.K)


def _digits(channels: int) -> tuple[nn.Module, tuple[int, ...], int]:
    return MNIST_CNN(in_channels=channels), (channels, 28, 28), 128


_SETS = (
    _Set("colored-mnist", "ColoredMNIST (2)", 64, 2, 2, partial(_digits, 2)),
    _Set("rotated-mnist", "RotatedMNIST (10)", 64, 5, 10, partial(_digits, 1)),
    _Set("vlcs", "VLCS (5)", 32, 3, 5, vit_small),
    _Set("pacs", "PACS (7)", 32, 3, 7, vit_small),
    _Set("terra-incognita", "TerraIncognita (10)", 32, 3, 10, vit_small),
    _Set("office-home", "OfficeHome (65)", 32, 3, 65, vit_small),
)
# Names of the paper's rows; under "diagonal" is what it calls approximate, and Hutchinson, which it calls exact.
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


def paper_plan(device: torch.device, *, quick: bool, memory_limit: int) -> Iterator[Section]:
    """What the paper's table takes: whole training steps in float32 on random images.

    Args:
        device: CPU or CUDA.
        quick: The digit sets alone, with fewer draws for Hutchinson's method.
        memory_limit: Bytes that a method may take; those that need more are listed only.

    Yields:
        A section for each data set.
    """
    # On a CPU a step of ViT-S takes half a minute: two are made, one of them timed.
    budget = 0.2 if quick else 3.0 if device.type == "cuda" else 0.5
    for data in _SETS[:2] if quick else _SETS:
        draws = 3 if quick else _DRAWS
        yield Section(f"training step, {data.title}", partial(_rows, data, device, budget, memory_limit, draws))


def _rows(data: _Set, device: torch.device, budget: float, memory_limit: int, draws: int) -> list[Row]:
    size = data.size
    penalties: dict[str, Rival | None] = {"erm": None}
    notes: dict[str, str] = {}
    for name, make in _makers(size, draws).items():
        need, note = _need(name, size)
        if need > memory_limit:
            notes[name] = note
        else:
            penalties[name] = ours(make(), device)
    steps = {name: training_step(data.encoder, size, device, penalty) for name, penalty in penalties.items()}
    fixed = _fixed_bytes(data)
    found = {
        name: Measurement(value.seconds, value.peak_bytes + fixed)
        for name, value in measure(steps, device, budget).items()
    }
    return [
        Row.of(TABLE, data.name, name, found[name], found["erm"])
        if name in found
        else Row(TABLE, data.name, name, note=notes[name])
        for name in _METHODS
    ]


def _makers(size: Size, draws: int) -> dict[str, Callable[[], DomainPenalty]]:
    K = size.K
    return {
        "coral": lambda: CORAL(validate=False),
        "fishr": lambda: Fishr(validate=False, num_domains=K),
        "hgp": lambda: HGP(validate=False),
        "hutchinson": lambda: Hutchinson(samples=draws, validate=False, num_domains=K),
        "hutchinson-exact": lambda: Hutchinson(validate=False, num_domains=K),
        "cma-speed": lambda: CMA(route="direct", validate=False, num_domains=K),
        "cma-memory": lambda: CMA(route="pairwise", validate=False, num_domains=K),
        "cma": lambda: CMA(route="gram", validate=False, num_domains=K),
    }


def _need(name: str, size: Size) -> tuple[int, str]:
    """Bytes that a penalty takes beyond the step, where that is much, and why it is not run if that is too much."""
    width = size.d + 1
    if name == "cma-speed":
        entries = closed_form.direct_size(2, closed_form.SoftmaxResiduals, width, size.C)
        if entries is None or entries > closed_form.LARGEST:
            return sys.maxsize, f"the direct route refuses Hessians of {size.C} classes, not run"
        need = 4 * 4 * size.K * entries
    elif name == "cma-memory":
        need = 4 * 3 * size.n * (size.C**2 + width**2)
    else:
        need = 0
    return need, f"needs about {need / 2**30:.2g} GiB, not run"


def _fixed_bytes(data: _Set) -> int:
    """Parameters, their two moments in Adam, and the images: what lies there before a step."""
    body, shape, width = data.encoder()
    parameters = sum(parameter.numel() for parameter in body.parameters()) + (width + 1) * data.C
    return 4 * (3 * parameters + data.size.n * torch.Size(shape).numel())


def paper_table(rows: Iterable[Row], device: torch.device) -> Group:
    """The rows in the paper's layout: seconds and GiB of a step, and in a second line what was published.

    Args:
        rows: Of :func:`paper_plan`.
        device: Where they were measured.

    Returns:
        A table and what to know of it.
    """
    found = {(row.size, row.name): row for row in rows if row.table == TABLE}
    sets = [data for data in _SETS if any(size == data.name for size, _ in found)]
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
        table.add_row(f"  {label}", *(_ours(found.get((data.name, name))) for data in sets))
        if name in published:
            theirs = (published[name].get(data.name) for data in sets)
            table.add_row("    published", *(_theirs(pair) for pair in theirs), style="dim")
    notes = dict.fromkeys(row.note for row in found.values() if row.note)
    lines = [
        "Published: on RTX 6000, by code that runs the encoder twice in a step of CMA. The paper lists Hutchinson",
        f"under exact second order, but it estimates a diagonal: its {_DRAWS} draws are taken here too (3: --quick).",
        "Ours: one forward pass, float32; memory holds parameters and Adam's moments; images are random, so loading",
        "and augmenting them is not in it.",
    ]
    if device.type == "cpu":
        lines.append("On a CPU few steps are timed, one where it takes seconds: read the ratios, not the seconds.")
    lines += [f"–: {note}." for note in notes]
    return Group(table, *lines)


def _ours(row: Row | None) -> str:
    if row is None or row.seconds is None or row.peak_bytes is None:
        return "–"
    return f"{row.seconds:.3g} / {row.peak_bytes / 2**30:.3g}"


def _theirs(pair: tuple[float | None, float] | None) -> str:
    if pair is None:
        return "–"
    seconds, memory = pair
    return f"{'–' if seconds is None else format(seconds, '.3g')} / {memory:.3g}"
