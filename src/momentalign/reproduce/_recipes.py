"""A recipe for each table and figure of the paper: functions that return what is to be run.

A run is a folder named by its configuration, so recipes that share runs share them on disk too: the table over all
data sets has nothing left to do once those of the single sets are done.
"""

import difflib
import inspect
from collections.abc import Callable
from dataclasses import replace

from momentalign.reproduce._kinds import CostRecipe, ProbeRecipe, Recipe, SweepRecipe

_FIVE = ("colored-mnist", "rotated-mnist", "vlcs", "pacs", "terra-incognita")


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
