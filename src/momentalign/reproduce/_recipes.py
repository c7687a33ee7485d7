"""A recipe for each table and figure of the paper: functions that return what is to be run.

A run is a folder named by its configuration, so recipes that share runs share them on disk too: the table over all
data sets has nothing left to do once those of the single sets are done.
"""

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace

VIT_SMALL = "hf:timm/vit_small_patch16_224.augreg_in21k"
CLIP = "hf:openai/clip-vit-base-patch32"
BERT = "hf:bert-base-uncased"

DOMAINS = {
    "colored-digits": 3,
    "rotated-digits": 6,
    "colored-mnist": 3,
    "rotated-mnist": 6,
    "vlcs": 4,
    "pacs": 4,
    "terra-incognita": 4,
}
_FIVE = ("colored-mnist", "rotated-mnist", "vlcs", "pacs", "terra-incognita")
_FOUR = ("erm", "coral", "fishr", "cma")
_STAND_INS = {"colored-mnist": "colored-digits", "rotated-mnist": "rotated-digits"}
_IN_THE_PAPER = ("erm", "coral", "fishr", "hgp", "cma")


@dataclass(frozen=True)
class SweepRecipe:
    """Fine-tuning by the DomainBed protocol.

    Args:
        name: On the command line.
        what: Which table or figure it gives.
        datasets: Names of the data sets.
        algorithms: Names of the algorithms.
        rules: Selection rules that its tables are for.
        trials: Number of trials.
        hparams: Sets of hyper-parameters, the defaults first.
        steps: Length of a run; None is the protocol's.
        figure: Chapter of the report page that is the paper's figure, or empty for a table.
        scale: "full" is the paper's; "small" shows that it works.
    """

    name: str
    what: str
    datasets: tuple[str, ...]
    algorithms: tuple[str, ...] = _FOUR
    rules: tuple[str, ...] = ("oracle", "training-domain")
    trials: int = 3
    hparams: int = 5
    steps: int | None = None
    figure: str = ""
    scale: str = "full"

    @property
    def runs(self) -> int:
        """How many runs it takes: one for each test domain, algorithm, set and trial."""
        return sum(DOMAINS[name] for name in self.datasets) * len(self.algorithms) * self.hparams * self.trials

    def encoder(self, dataset: str) -> str | None:
        """The paper's encoder for a data set; None is the data set's own small network."""
        return None if "mnist" in dataset or "digits" in dataset else VIT_SMALL

    def small(self) -> "SweepRecipe":
        """The same at a size that shows that it works: 300 steps, digits that need no download in place of MNIST."""
        names = tuple(_STAND_INS.get(name, name) for name in self.datasets)
        sets = min(2, self.hparams)
        return replace(self, datasets=names, trials=1, hparams=sets, steps=300, scale="small")


@dataclass(frozen=True)
class ProbeRecipe:
    """Linear probing of data sets with groups.

    Args:
        name: On the command line.
        what: Which table or figure it gives.
        datasets: Names of the data sets.
        methods: Names of the methods.
        seeds: Seeds of the best sets; and of the figure.
        figure: Whether it is the figure of one setting over steps, with the published best weights.
        rows: Most rows of each group and split to compute features of; None takes all.
        steps: Most steps of fine-tuning an encoder before it computes features; None is three epochs.
        scale: "full" is the paper's; "small" shows that it works.
    """

    name: str
    what: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...] = _IN_THE_PAPER
    seeds: int = 5
    figure: bool = False
    rows: int | None = None
    steps: int | None = None
    scale: str = "full"

    def encoder(self, dataset: str) -> str:
        """The paper's encoder for a data set, before it is fine-tuned."""
        return BERT if dataset == "multinli" else CLIP

    def small(self) -> "ProbeRecipe":
        """The same with two seeds, a hundred rows of each group and split, and 300 steps to fine-tune an encoder."""
        return replace(self, seeds=2, rows=100, steps=300, scale="small")


@dataclass(frozen=True)
class CostRecipe:
    """Time and memory of a training step.

    Args:
        name: On the command line.
        what: Which tables it gives.
        scale: "full" is the paper's; "small" leaves the images out.
    """

    name: str
    what: str
    scale: str = "full"

    def small(self) -> "CostRecipe":
        """The digit sets alone."""
        return replace(self, scale="small")


Recipe = SweepRecipe | ProbeRecipe | CostRecipe


def colored_mnist() -> SweepRecipe:
    """ColoredMNIST per domain, by both selections (appendix)."""
    return _sweep(colored_mnist, "colored-mnist")


def rotated_mnist() -> SweepRecipe:
    """RotatedMNIST per domain, by both selections (appendix)."""
    return _sweep(rotated_mnist, "rotated-mnist")


def vlcs() -> SweepRecipe:
    """VLCS per domain, by both selections (appendix)."""
    return _sweep(vlcs, "vlcs")


def pacs() -> SweepRecipe:
    """PACS per domain, by both selections (appendix)."""
    return _sweep(pacs, "pacs")


def terra_incognita() -> SweepRecipe:
    """TerraIncognita per domain, by both selections (appendix)."""
    return _sweep(terra_incognita, "terra-incognita")


def domainbed() -> SweepRecipe:
    """The main fine-tuning table: five data sets, oracle selection; and its training-domain twin (appendix)."""
    return _sweep(domainbed, *_FIVE)


def baselines() -> SweepRecipe:
    """Additional baselines on the MNIST sets, by both selections (appendix)."""
    more = ("erm", "coral", "fishr", "groupdro", "dann", "cdann", "vrex", "selfreg", "cma")
    return replace(_sweep(baselines, "colored-mnist", "rotated-mnist"), algorithms=more)


def hgp() -> SweepRecipe:
    """HGP beside CMA when fine-tuning, by both selections (appendix)."""
    return replace(_sweep(hgp, *_FIVE), algorithms=("hgp", "cma"))


def vlcs_moments() -> SweepRecipe:
    """Figure: first and second moments of the features between domains over steps, on VLCS."""
    recipe = _sweep(vlcs_moments, "vlcs")
    return replace(recipe, algorithms=("erm", "fishr", "cma"), trials=1, hparams=1, figure="moments")


def waterbirds() -> ProbeRecipe:
    """Linear probing of Waterbirds: average and worst group; and HGP beside CMA (appendix)."""
    return _probe(waterbirds, "waterbirds")


def celeba() -> ProbeRecipe:
    """Linear probing of CelebA: average and worst group; and HGP beside CMA (appendix)."""
    return _probe(celeba, "celeba")


def multinli() -> ProbeRecipe:
    """Linear probing of MultiNLI: average and worst group; and HGP beside CMA (appendix)."""
    return _probe(multinli, "multinli")


def probing() -> ProbeRecipe:
    """The main linear-probing table: all three data sets."""
    return _probe(probing, "waterbirds", "celeba", "multinli")


def celeba_hessian() -> ProbeRecipe:
    """Figure: the Hessian's penalty and the worst group's accuracy over steps, on CelebA."""
    return replace(_probe(celeba_hessian, "celeba"), methods=("cma",), figure=True)


def costs() -> CostRecipe:
    """The two tables of wall-clock time and memory; 'momentalign bench --paper' is the same."""
    return CostRecipe(_name(costs), _what(costs))


_FUNCTIONS: tuple[Callable[[], Recipe], ...] = (
    domainbed,
    colored_mnist,
    rotated_mnist,
    vlcs,
    pacs,
    terra_incognita,
    baselines,
    hgp,
    vlcs_moments,
    probing,
    waterbirds,
    celeba,
    multinli,
    celeba_hessian,
    costs,
)


def recipe_names() -> tuple[str, ...]:
    """Names of all recipes, tables of fine-tuning first."""
    return tuple(map(_name, _FUNCTIONS))


def find_recipe(name: str, scale: str = "full") -> Recipe:
    """A recipe by its name.

    Args:
        name: One of :func:`recipe_names`.
        scale: "full" or "small".

    Returns:
        What is to be run.

    Raises:
        ValueError: No such recipe, or no such scale.
    """
    if scale not in ("full", "small"):
        raise ValueError(f"'--scale' should be full or small, but is '{scale}'.")
    for function in _FUNCTIONS:
        if _name(function) == name:
            return function() if scale == "full" else function().small()
    near = difflib.get_close_matches(name, recipe_names(), 1)
    raise ValueError(
        f"There is no recipe '{name}'."
        + (f" Meant '{near[0]}'?" if near else "")
        + f" Known: {', '.join(recipe_names())}."
    )


def _sweep(function: Callable[[], SweepRecipe], *datasets: str) -> SweepRecipe:
    return SweepRecipe(_name(function), _what(function), datasets)


def _probe(function: Callable[[], ProbeRecipe], *datasets: str) -> ProbeRecipe:
    return ProbeRecipe(_name(function), _what(function), datasets)


def _name(function: Callable[[], Recipe]) -> str:
    return function.__name__.replace("_", "-")


def _what(function: Callable[[], Recipe]) -> str:
    return inspect.getdoc(function) or ""
