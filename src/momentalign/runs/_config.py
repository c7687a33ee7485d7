"""The configuration of a run: everything that its numbers depend on, and nothing else."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CELL = ("dataset", "algorithm", "test_domains", "trial", "hparams_seed", "setting")
"""Settings that identify a cell of a table, which shows one run."""

OPTIONAL = ("average", "preset", "augment", "keep", "reach")
"""Settings that are part of a configuration only where they differ from their default."""


@dataclass(frozen=True)
class RunConfig:
    """A run's configuration. Two runs with the same one give the same numbers.

    Args:
        dataset: Name of the data set, or its path.
        algorithm: Name of the algorithm, or its import path.
        test_domains: Domains that are not trained on, in the data set's order.
        trial: Seed of data, split, initialisation, batches and augmentation, each derived by name.
        hparams_seed: Which draw of hyper-parameters; 0 is the defaults.
        hparams: All hyper-parameters, resolved.
        steps: Number of steps.
        record_every: Steps between records; the first and the last step are recorded as well.
        encoder: As on the command line, a path in the data folder relative to it; None for the default of the data set.
        holdout: Share of each domain in its "out" split.
        precision: "32", or "bf16" for a forward pass in bfloat16.
        setting: "finetune", or "probe" for a linear head on fixed features.
        pool: Draw batches from all training domains together, as one domain, each row once per epoch.
        average: Average of the weights that is recorded beside them: "none", "ema", "sma" or "swad".
        preset: Search space of the hyper-parameters: "published", or "safe" or "released" where the algorithm has one.
        augment: Augmentation of image bytes: "domainbed", "no-flip" or "none"; nothing else is augmented.
        keep: Which record's weights a finished run saves: "last", or the best one by "training-domain" or
            "extrapolated" selection, or by "worst-group", the worst group of the validation rows; of averaged weights
            where the run has an average.
        reach: Of "extrapolated" selection.
    """

    dataset: str
    algorithm: str
    test_domains: tuple[str, ...]
    trial: int
    hparams_seed: int
    hparams: Mapping[str, Any] = field(hash=False)
    steps: int
    record_every: int
    encoder: str | None = None
    holdout: float = 0.2
    precision: str = "32"
    setting: str = "finetune"
    pool: bool = False
    average: str = "none"
    preset: str = "published"
    augment: str = "domainbed"
    keep: str = "last"
    reach: float = 2.0

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON values, without optional settings at their default.

        A new setting thus changes neither the configuration nor the hash of runs that do not use it.
        """
        values = {**dataclasses.asdict(self), "test_domains": list(self.test_domains)}
        defaults = {item.name: item.default for item in dataclasses.fields(self) if item.name in OPTIONAL}
        return {name: value for name, value in values.items() if name not in OPTIONAL or value != defaults[name]}

    def hash(self) -> str:
        """Digest of the configuration: sixteen hexadecimal digits, the same on every machine."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def differing_keys(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Keys whose values differ between two configurations."""
    return [key for key in {**one, **other} if one.get(key) != other.get(key)]


def cell_of(config: Mapping[str, Any]) -> tuple[object, ...]:
    """The table cell of a configuration. Test domains are a set: DomainBed writes a pair in either order."""
    values = {"setting": "finetune", **config}
    return tuple(frozenset(values[name]) if name == "test_domains" else values[name] for name in CELL)
