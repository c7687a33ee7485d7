"""Small data sets and runs that the tests of this floor share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import Tensor

from momentalign import _graphs
from momentalign._model_file import MODEL, read_model
from momentalign.data import DomainDataset, Split
from momentalign.runs import RunConfig, read_records
from momentalign.training import _capture, _loop, _steps, make_config

TIMES = ("step_seconds", "memory_gib")
"""What two runs of one configuration may differ in."""


def images(rows: int, shift: float, seed: int) -> Split:
    """Two classes of noisy 8×8 images, brighter in one; `shift` makes domains differ."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.arange(rows) % 2
    inputs = torch.randn(rows, 1, 8, 8, generator=generator) + targets[:, None, None, None] + shift
    return Split(inputs, targets)


def three_domains(rows: int = 24) -> DomainDataset:
    """Domains a, b and c, each with an "in" and an "out" split."""
    domains = {
        name: {"in": images(rows, shift, 2 * k), "out": images(rows // 2, shift, 2 * k + 1)}
        for k, (name, shift) in enumerate({"a": 0.0, "b": 0.3, "c": -0.3}.items())
    }
    return DomainDataset("three", 2, domains, ("dark", "bright"))


def grouped(rows: int = 20) -> DomainDataset:
    """Domains land and water with published splits and the four groups of class and domain."""

    def split(domain: int, seed: int) -> Split:
        found = images(rows, 0.2 * domain, seed)
        return Split(found.inputs, found.targets, 2 * found.targets + domain)

    domains = {
        name: {part: split(domain, 10 * domain + k) for k, part in enumerate(("train", "val", "test"))}
        for domain, name in enumerate(("land", "water"))
    }
    return DomainDataset("birds", 2, domains, ("landbird", "waterbird"), ("ll", "lw", "wl", "ww"))


def small_config(data: DomainDataset, algorithm: str = "erm", **options: object) -> RunConfig:
    """A run of twenty steps with batches of eight."""
    held_out = {"test_domains": ["c"]} if "c" in data.names else {}
    hparams = {"batch_size": 8, **options.pop("hparams", {})}  # type: ignore[dict-item]
    settings = {"steps": 20, "record_every": 4, **held_out, **options}
    return make_config(data, algorithm, hparams=hparams, **settings)  # type: ignore[arg-type]


def weights(folder: Path) -> dict[str, Tensor]:
    """Weights of a run's network."""
    return read_model(folder / MODEL)[1]


def assert_same_weights(first: Path, second: Path) -> None:
    """Bit by bit."""
    one, other = weights(first), weights(second)
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


def numbers(folder: Path) -> list[tuple[object, ...]]:
    """A run's records but for the times."""
    return [tuple(record.items()) for record in read_records(folder) if record["metric"] not in TIMES]


@contextmanager
def cut_at(number: int, error: BaseException | None = None) -> Iterator[None]:
    """What runs inside ends at the step of that number, by a power cut or another error."""
    error = error or RuntimeError("power cut")

    def broken(real: Callable[..., None]) -> Callable[..., None]:
        def seed_step(trial: int, step: int, *rest: object) -> None:
            if step == number:
                raise error
            real(trial, step, *rest)

        return seed_step

    with pytest.MonkeyPatch.context() as patch:
        for module in (_steps, _capture):
            patch.setattr(module, "seed_step", broken(module.seed_step))
        with pytest.raises(type(error), match=str(error) or None):
            yield


def capture_on_the_host(patch: pytest.MonkeyPatch) -> None:
    """In place of a CUDA graph: the steps that capturing takes, and for a replay the step that the graph has kept."""

    def warm_up(function: Callable[[], None], training: _steps.Training) -> None:
        for _ in range(3):
            function()

    class HostGraph:
        def __init__(self, function: Callable[[], object], device: torch.device) -> None:
            self.replay = function
            function()

    patch.setattr(_capture, "_warm_up", warm_up)
    for module in (_capture, _graphs):
        patch.setattr(module, "Graph", HostGraph)
    patch.setattr(_graphs, "call_without_waiting", lambda function: (function(), None))
    patch.setattr(_loop, "choose_capture", lambda asked, *_: asked)
