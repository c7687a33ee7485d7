"""Recipes of the paper's tables and figures, at full size or as a smoke test.

A run is a folder named by its configuration, so recipes that share runs share them on disk too: the table over all
data sets has nothing left to run once those of the single sets are done.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from momentalign._format import suggest
from momentalign.published import VIT_SMALL

CLIP = "hf:openai/clip-vit-base-patch32"
RELEASED_CLIP = "hf:timm/vit_base_patch16_clip_384.openai_ft_in1k"
"""CLIP's ViT-B/16, fine-tuned on ImageNet at 384 pixels: the kind of encoder that the public code uses."""
BERT = "hf:bert-base-uncased"

_DOMAINS = {
    "colored-digits": 3,
    "rotated-digits": 6,
    "colored-mnist": 3,
    "rotated-mnist": 6,
    "vlcs": 4,
    "pacs": 4,
    "terra-incognita": 4,
}
_DIGITS = {"colored-mnist": "colored-digits", "rotated-mnist": "rotated-digits"}
_MNIST = ("colored-mnist", "rotated-mnist")
_FIVE = (*_MNIST, "vlcs", "pacs", "terra-incognita")


@dataclass(frozen=True)
class PaperRecipe(ABC):
    """A table or figure of the paper.

    Args:
        name: Name on the command line.
        what: The table or figure it reproduces.
        datasets: Its data sets; none for costs.
        scale: "full" is the paper's; "small" is a smoke test.
        preset: "published" is what the paper describes; "released" what its public code does where that differs.
    """

    name: str
    what: str
    datasets: tuple[str, ...] = ()
    scale: str = field(default="full", kw_only=True)
    preset: str = field(default="published", kw_only=True)

    def released(self) -> Self:
        """The same recipe as the public code runs it."""
        return replace(self, name=f"{self.name}-released", preset="released")

    @abstractmethod
    def small(self) -> Self:
        """The same recipe at the size of a smoke test."""

    def without(self, datasets: Collection[str]) -> Self:
        """The recipe without some of its data sets."""
        return replace(self, datasets=tuple(name for name in self.datasets if name not in datasets))


@dataclass(frozen=True)
class SweepRecipe(PaperRecipe):
    """Fine-tuning by the DomainBed protocol.

    Args:
        algorithms: Names of the algorithms.
        rules: Selection rules of its tables.
        trials: Number of trials.
        hparams: Sets of hyper-parameters, the defaults first.
        steps: Length of a run; None is the protocol's.
        figure: Section of the report page that is the paper's figure, or empty for a table.
    """

    algorithms: tuple[str, ...] = ("erm", "coral", "fishr", "cma")
    rules: tuple[str, ...] = ("oracle", "training-domain")
    trials: int = 3
    hparams: int = 5
    steps: int | None = None
    figure: str = ""

    @property
    def runs(self) -> int:
        """Number of runs: one for each test domain, algorithm, set and trial."""
        return sum(_DOMAINS[name] for name in self.datasets) * len(self.algorithms) * self.hparams * self.trials

    def encoder(self, dataset: str, replacement: str | None = None) -> str | None:
        """Encoder of a data set: `replacement` or the paper's for images, None (a small network) for digits."""
        return None if "mnist" in dataset or "digits" in dataset else replacement or VIT_SMALL

    def released(self) -> Self:
        """With CMA on the diagonals of the Hessians, and the annealing of the public code."""
        names = tuple("cma-diagonal" if name == "cma" else name for name in self.algorithms)
        return replace(super().released(), algorithms=names)

    def small(self) -> Self:
        """The same with 300 steps, one trial, two sets, and digits that need no download instead of MNIST."""
        names = tuple(_DIGITS.get(name, name) for name in self.datasets)
        return replace(self, datasets=names, trials=1, hparams=min(2, self.hparams), steps=300, scale="small")


@dataclass(frozen=True)
class ProbingRecipe(PaperRecipe):
    """Linear probing of data sets with groups.

    Args:
        papers: Names of the paper's methods.
        seeds: Seeds of the best sets, and of the figure.
        figure: Whether it is the figure of one setting over steps, with the published best weights.
        rows: Maximum number of rows of each group and split to compute features of; None takes all.
        steps: Maximum number of steps to fine-tune an encoder; None is three epochs.
    """

    papers: tuple[str, ...] = ("erm", "erm-balanced", "coral", "fishr", "hgp", "cma")
    seeds: int = 5
    figure: bool = False
    rows: int | None = None
    steps: int | None = None

    @property
    def methods(self) -> tuple[str, ...]:
        """The paper's methods, and in tables those for worst groups; a solver skips those that it lacks."""
        from momentalign.probing import GROUP_METHODS

        return self.papers if self.figure else (*self.papers, *GROUP_METHODS)

    @property
    def solver(self) -> str:
        """Solver if none is named: the public code's is SGD."""
        return "sgd" if self.preset == "released" else "converged"

    def encoders(self, dataset: str) -> int:
        """Number of encoders of a data set: the public code has a fine-tuned BERT for each seed."""
        return self.seeds if self.preset == "released" and dataset == "multinli" else 1

    def released(self) -> Self:
        """With the centre of HGP, the encoders, grids and units of annealing of the public code."""
        names = tuple("hgp-product" if name == "hgp" else name for name in self.papers)
        return replace(super().released(), papers=names)

    def encoder(self, dataset: str) -> str:
        """Encoder of a data set, before fine-tuning."""
        if dataset == "multinli":
            return BERT
        return RELEASED_CLIP if self.preset == "released" else CLIP

    def small(self) -> Self:
        """The same with two seeds, 100 rows of each group and split, and 300 steps to fine-tune an encoder."""
        return replace(self, seeds=2, rows=100, steps=300, scale="small")


@dataclass(frozen=True)
class CostRecipe(PaperRecipe):
    """Time and memory of a training step; needs no data."""

    def released(self) -> Self:
        """Raise ValueError: there is one way to measure."""
        raise ValueError(f"Recipe '{self.name}' measures both routes of the paper and has no '--preset released'.")

    def small(self) -> Self:
        """Only the digit sets."""
        return replace(self, scale="small")


def _per_domain(title: str, dataset: str) -> SweepRecipe:
    return SweepRecipe(dataset, f"{title} per domain, by both selections (appendix).", (dataset,))


def _groups(title: str, dataset: str) -> ProbingRecipe:
    what = f"Linear probing of {title}: average and worst group; HGP beside CMA (appendix); remedies for worst groups."
    return ProbingRecipe(dataset, what, (dataset,))


_RECIPES: tuple[PaperRecipe, ...] = (
    SweepRecipe(
        "domainbed",
        "The main fine-tuning table: five data sets, oracle selection; and its training-domain twin (appendix).",
        _FIVE,
    ),
    _per_domain("ColoredMNIST", "colored-mnist"),
    _per_domain("RotatedMNIST", "rotated-mnist"),
    _per_domain("VLCS", "vlcs"),
    _per_domain("PACS", "pacs"),
    _per_domain("TerraIncognita", "terra-incognita"),
    SweepRecipe(
        "baselines",
        "Additional baselines on the MNIST sets, by both selections (appendix).",
        _MNIST,
        ("erm", "coral", "fishr", "groupdro", "dann", "cdann", "vrex", "selfreg", "cma"),
    ),
    SweepRecipe("hgp", "HGP beside CMA when fine-tuning, by both selections (appendix).", _FIVE, ("hgp", "cma")),
    SweepRecipe(
        "vlcs-moments",
        "Figure: first and second moments of the features between domains over steps, on VLCS.",
        ("vlcs",),
        ("erm", "fishr", "cma"),
        trials=1,
        hparams=1,
        figure="moments",
    ),
    ProbingRecipe(
        "probing", "The main linear-probing table: all three data sets.", ("waterbirds", "celeba", "multinli")
    ),
    _groups("Waterbirds", "waterbirds"),
    _groups("CelebA", "celeba"),
    _groups("MultiNLI", "multinli"),
    ProbingRecipe(
        "celeba-hessian",
        "Figure: the Hessian's penalty and the worst group's accuracy over steps, on CelebA.",
        ("celeba",),
        ("cma",),
        figure=True,
    ),
    CostRecipe("costs", "The two tables of wall-clock time and memory; 'momentalign bench --paper' is the same."),
)


def recipe_names() -> tuple[str, ...]:
    """Names of all recipes, fine-tuning tables first."""
    return tuple(recipe.name for recipe in _RECIPES)


def find_recipe(name: str, scale: str = "full", preset: str = "published") -> PaperRecipe:
    """Find a recipe by name, for scale "full" or "small" and preset "published" or "released"."""
    if scale not in ("full", "small"):
        raise ValueError(f"'--scale' should be full or small, but is '{scale}'.")
    if preset not in ("published", "released"):
        raise ValueError(f"'--preset' should be published or released, but is '{preset}'.")
    for recipe in _RECIPES:
        if recipe.name == name:
            as_described = recipe if preset == "published" else recipe.released()
            return as_described if scale == "full" else as_described.small()
    suggestion = suggest(name, recipe_names())
    raise ValueError(f"There is no recipe '{name}'.{suggestion} Known: {', '.join(recipe_names())}.")


@dataclass(frozen=True)
class MissingData:
    """A data set that is not in the data folder: the command that fetches it, its size and expected path."""

    dataset: str
    command: str
    gigabytes: float
    folder: Path

    def __str__(self) -> str:
        return (
            f"{self.dataset} is missing ({self.gigabytes:.3g} GB). Fetch it with: {self.command} (or copy it to "
            f"{self.folder})"
        )


def missing_data(recipe: PaperRecipe, root: str | Path | None = None) -> list[MissingData]:
    """Data sets of a recipe that are not in the data folder, each with the command that fetches it."""
    from momentalign.data import EMBEDDED, dataset_path, find_source, is_complete

    missing = []
    for name in recipe.datasets:
        if name not in EMBEDDED and not is_complete(name, root):
            source, about = find_source(name)
            command = f"momentalign data fetch {source}" + (f" --root {root}" if root is not None else "")
            missing.append(MissingData(name, command, about.gigabytes, dataset_path(name, root)))
    return missing
