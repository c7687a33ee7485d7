"""What a study consists of, and its runs in order."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from momentalign.algorithms import find_algorithm
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
        preset: Search space; algorithms without one of that name have the published one.
        first_trial: The first seed.
    """

    algorithms: Sequence[str]
    hparams: int
    trials: int
    test_domains: Sequence[str] | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    preset: str = "published"
    first_trial: int = 0

    @property
    def seeds(self) -> range:
        """Trials."""
        return range(self.first_trial, self.first_trial + self.trials)

    def preset_of(self, algorithm: str) -> str:
        """The search space that an algorithm has."""
        return self.preset if find_algorithm(algorithm).has_space(self.preset) else "published"


@dataclass(frozen=True)
class Study:
    """Sweeps on one data set with the same options.

    Args:
        dataset: Its name.
        domains: Names of its domains.
        records: Name of the file of records.
        parts: The sweeps, in order.
        options: Further arguments of :func:`momentalign.training.make_config`.
        encoder: Path of an encoder in the data folder, perhaps with a size of images.
    """

    dataset: str
    domains: Sequence[str]
    records: str
    parts: Sequence[Part]
    options: Mapping[str, Any]
    encoder: str | None = None

    def size(self, algorithm: str | None = None) -> int:
        """Number of planned runs, of all algorithms or of one."""
        return sum(
            part.hparams * part.trials * len(part.test_domains or self.domains)
            for part in self.parts
            for name in part.algorithms
            if algorithm in (None, name)
        )

    def covers(self, config: Mapping[str, Any]) -> bool:
        """Whether a stored run is one of the planned."""
        defaults = {item.name: item.default for item in fields(RunConfig)}
        settings = {**defaults, **config}
        return all(settings[name] == value for name, value in self.options.items()) and any(
            settings["algorithm"] in part.algorithms
            and settings["hparams_seed"] < part.hparams
            and settings["trial"] in part.seeds
            and set(settings["test_domains"]) <= set(part.test_domains or self.domains)
            and settings["preset"] == part.preset_of(settings["algorithm"])
            and all(settings["hparams"][name] == value for name, value in part.overrides.items())
            for part in self.parts
        )


COLOURED = ("+90%", "+80%", "-90%")
"""Domains of ColoredMNIST."""
MNIST_OPTIONS = {"precision": "bf16", "average": "sma"}
"""Of the studies on MNIST: bfloat16, which agreed with float32, and averaged weights beside the last ones."""


def runs_of(study: Study, root: Path) -> list[RunConfig]:
    """Runs of a study: set by set, the defaults first, within one the trials, and within a trial the algorithms."""
    data = load_dataset(study.dataset, trial=0, root=root)
    ordered: list[tuple[tuple[int, ...], RunConfig]] = []
    for number, part in enumerate(study.parts):
        tests = part.test_domains or study.domains
        cells = itertools.product(part.seeds, range(part.hparams), enumerate(part.algorithms), tests)
        for trial, seed, (rank, algorithm), test in cells:
            config = make_config(
                data,
                algorithm,
                test_domains=[test],
                trial=trial,
                hparams_seed=seed,
                hparams=part.overrides,
                preset=part.preset,
                encoder=study.encoder,
                root=root,
                **study.options,
            )
            ordered.append(((seed, trial, number, rank), config))
    ordered.sort(key=lambda item: item[0])
    return [config for _, config in ordered]
