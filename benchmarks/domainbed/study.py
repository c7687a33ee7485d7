"""What a study consists of, and its runs in order."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from momentalign.data import load_dataset
from momentalign.runs import RunConfig
from momentalign.training import make_config


@dataclass(frozen=True)
class Part:
    """One sweep of a study.

    Args:
        algorithms: Their names, the most informative first.
        hparams: Number of sets of hyper-parameters, the defaults first.
        trials: Number of seeds.
        test_domains: Those to leave out in turn; None for all.
        overrides: Hyper-parameters that are set.
        preset: Search space.
    """

    algorithms: Sequence[str]
    hparams: int
    trials: int
    test_domains: Sequence[str] | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    preset: str = "auto"


@dataclass(frozen=True)
class Study:
    """Sweeps on one data set with the same options.

    Args:
        dataset: Its name.
        records: Name of the file of records.
        parts: The sweeps, in order.
        options: Further arguments of :func:`momentalign.training.make_config`.
        encoder: Path of an encoder in the data folder.
    """

    dataset: str
    records: str
    parts: Sequence[Part]
    options: Mapping[str, Any]
    encoder: str | None = None


MNIST_OPTIONS = {"precision": "bf16", "average": "sma"}
"""Of the studies on MNIST: bfloat16, which agreed with float32, and averaged weights beside the last ones."""


def runs_of(study: Study, root: Path) -> list[RunConfig]:
    """Runs of a study: trial by trial, within one the sets in order, and within a set the algorithms."""
    data = load_dataset(study.dataset, trial=0, root=root)
    encoder = None if study.encoder is None else str(root / study.encoder)
    ordered: list[tuple[tuple[int, ...], RunConfig]] = []
    for number, part in enumerate(study.parts):
        tests = data.names if part.test_domains is None else part.test_domains
        cells = itertools.product(range(part.trials), range(part.hparams), enumerate(part.algorithms), tests)
        for trial, seed, (rank, algorithm), test in cells:
            config = make_config(
                data,
                algorithm,
                test_domains=[test],
                trial=trial,
                hparams_seed=seed,
                hparams=part.overrides,
                preset=part.preset,
                encoder=encoder,
                **study.options,
            )
            ordered.append(((trial, seed, number, rank), config))
    ordered.sort(key=lambda item: item[0])
    return [config for _, config in ordered]
