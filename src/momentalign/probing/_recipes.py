"""Settings of the protocol for each data set, and the hyper-parameter sets that it tries for a method."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from momentalign._validation import check_choice
from momentalign.probing._methods import ALIGNMENT_GRID, BATCH, SOLVERS, find_method
from momentalign.published import BEST_PROBES, published_as


def count_batches(rows: int, size: int = BATCH) -> int:
    """Batches in a pass over the rows; the last one may be smaller."""
    return math.ceil(rows / size)


@dataclass(frozen=True)
class ProbeRecipe:
    """Settings of the protocol for a data set.

    Args:
        name: Of the data set.
        epochs: Passes over the training rows (SGD).
        anneal_steps: Annealing steps to search (SGD); None takes five values up to nearly all steps.
        isr_class: Class that ISR compares, as an index; None chooses by worst-group validation accuracy.
        unit_scale: Whether features are scaled to a mean square of one; the published weights are for unscaled ones.
        more_weights: Weights that the grids of moment alignment have beside the published ones.
        counting: Methods whose annealing steps count the batches of validation and test rows after each epoch.
    """

    name: str
    epochs: int = 50
    anneal_steps: tuple[int, ...] | None = None
    isr_class: int | None = None
    unit_scale: bool = False
    more_weights: tuple[float, ...] = ()
    counting: tuple[str, ...] = ()

    def anneal_grid(self, train_rows: int) -> tuple[int, ...]:
        """Annealing steps to search."""
        if self.anneal_steps is not None:
            return self.anneal_steps
        quarter = round(0.24 * count_batches(train_rows) * self.epochs)  # as in the published grids, but for rounding
        return tuple(dict.fromkeys(quarter * k for k in range(5)))

    def training_step(self, count: int, *, train_rows: int, evaluation_rows: Sequence[int]) -> int:
        """Training step at which a count of training and evaluation batches is reached.

        Example:
            >>> recipe_for("waterbirds-released").training_step(2800, train_rows=4795, evaluation_rows=(1199, 5794))
            1120
        """
        train, rest = count_batches(train_rows), sum(map(count_batches, evaluation_rows))
        epochs, left = divmod(count, train + rest)
        return epochs * train + min(left, train)


def _released(recipe: ProbeRecipe, weight: float) -> ProbeRecipe:
    """A recipe as the public code runs it."""
    counting = ("fishr", "hgp", "hgp-product")
    return replace(recipe, name=f"{recipe.name}-released", more_weights=(weight,), counting=counting)


_WATERBIRDS = ProbeRecipe("waterbirds", 300, tuple(range(0, 2801, 700)), 0)
_CELEBA = ProbeRecipe("celeba", 50, tuple(range(0, 16001, 4000)), 0)
_MULTINLI = ProbeRecipe("multinli", 3, tuple(range(0, 1201, 300)), 2)

_RECIPES = {
    recipe.name: recipe
    for recipe in (
        *(_WATERBIRDS, _CELEBA, _MULTINLI),
        *(_released(_WATERBIRDS, 0.1), _released(_CELEBA, 0.1), _released(_MULTINLI, 0.0)),
        ProbeRecipe("table", unit_scale=True),
    )
}


def recipe_for(name: str) -> ProbeRecipe:
    """Look up a recipe: `"waterbirds"`, `"celeba"`, `"multinli"`, or `"table"` for any other data.

    The first three with `-released` after the name are as the public code of the paper runs them.

    Example:
        >>> recipe_for("celeba").epochs
        50
    """
    return _RECIPES[check_choice("recipe", name, _RECIPES)]


def method_grid(
    name: str, solver: str, recipe: ProbeRecipe, *, train_rows: int, evaluation_rows: Sequence[int] = ()
) -> list[dict[str, float]]:
    """Hyper-parameter sets of a method, the published best one first; one empty set where there is nothing to tune.

    SGD has annealing steps as well, whose number depends on that of the training rows, and in some recipes on the rows
    of the other splits.

    Example:
        >>> from momentalign.probing import recipe_for
        >>> grid = method_grid("cma", "converged", recipe_for("waterbirds"), train_rows=4795)
        >>> len(grid), grid[0]
        (49, {'gradient_weight': 10.0, 'hessian_weight': 1000.0})
    """
    method = find_method(name)
    if check_choice("solver", solver, SOLVERS) not in method.solvers:
        raise ValueError(
            f"'{name}' is fitted by solver '{method.solvers[0]}' only, but 'solver' is '{solver}'. Use that solver, or "
            "leave the method out."
        )
    grid = {} if method.limit and solver == "converged" else dict(method.grid)
    grid = {
        key: (*recipe.more_weights, *values) if values is ALIGNMENT_GRID else values for key, values in grid.items()
    }
    data, published = recipe.name.removesuffix("-released"), BEST_PROBES.get(published_as(name), {})
    best = {key: values[data] for key, values in published.items() if data in values}
    if solver == "sgd" and method.penalty is not None:
        grid["anneal_steps"] = recipe.anneal_grid(train_rows)
        if name in recipe.counting:
            count = partial(recipe.training_step, train_rows=train_rows, evaluation_rows=evaluation_rows)
            grid["anneal_steps"] = tuple(map(count, grid["anneal_steps"]))
            best |= {"anneal_steps": count(int(best["anneal_steps"]))} if "anneal_steps" in best else {}
    sets = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    best = {key: value for key, value in best.items() if key in grid}
    return [best, *(one for one in sets if one != best)] if best and set(best) == set(grid) else sets
