"""The studies: which runs, and in which order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from momentalign.runs import RunConfig
from momentalign.sweep import make_plan


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
        options: Further arguments of :func:`momentalign.sweep.make_plan`.
        encoder: Path of an encoder in the data folder.
    """

    dataset: str
    records: str
    parts: Sequence[Part]
    options: Mapping[str, Any]
    encoder: str | None = None


_MNIST = {"precision": "bf16", "average": "sma"}
_MAIN = ("cma-momentum", "erm", "cma", "fishr", "cma-diagonal", "vrex", "irm", "groupdro", "coral", "hgp")
_REST = (
    "mmd",
    "fish",
    "iga",
    "andmask",
    "dann",
    "cdann",
    "selfreg",
    "hutchinson",
    "gradient-matching",
    "hessian-matching",
)

STUDIES = {
    "colored-mnist": Study("colored-mnist", "colored-mnist", [Part(_MAIN, 5, 3)], _MNIST),
    "colored-mnist-20": Study(
        "colored-mnist", "colored-mnist", [Part(("erm", "fishr", "cma", "cma-momentum"), 20, 3, ("-90%",))], _MNIST
    ),
    "colored-mnist-rest": Study("colored-mnist", "colored-mnist", [Part(_REST, 5, 1)], _MNIST),
    "rotated-mnist": Study(
        "rotated-mnist", "rotated-mnist", [Part(("erm", "cma-momentum", "cma", "fishr", "coral"), 5, 1)], _MNIST
    ),
    "pacs": Study(
        "pacs",
        "pacs",
        [Part(("erm", "cma", "cma-momentum", "coral", "fishr"), 1, 3), Part(("cma",), 1, 3, preset="published")],
        {"steps": 1001, "record_every": 100, "average": "sma"},
        encoder="encoders/mobilenet_v2?size=112",
    ),
}


def runs_of(study: Study, root: Path) -> list[RunConfig]:
    """Runs of a study: trial by trial, within one the sets in order, and within a set the algorithms."""
    ordered: list[tuple[tuple[int, ...], RunConfig]] = []
    for number, part in enumerate(study.parts):
        plan = make_plan(
            [study.dataset],
            list(part.algorithms),
            hparams=part.hparams,
            trials=part.trials,
            test_domains=part.test_domains,
            root=root,
            overrides=dict(part.overrides),
            preset=part.preset,
            encoder=None if study.encoder is None else str(root / study.encoder),
            **study.options,
        )
        for run in plan.runs:
            rank = list(part.algorithms).index(run.algorithm)
            ordered.append(((run.trial, run.hparams_seed, number, rank), run))
    ordered.sort(key=lambda item: item[0])
    return [run for _, run in ordered]
