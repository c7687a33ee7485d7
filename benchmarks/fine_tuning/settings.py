"""Settings that are compared, data sets, and the runs of the study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from momentalign.algorithms import find_algorithm

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
