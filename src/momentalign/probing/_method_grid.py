"""Sets of hyper-parameters that the protocol tries for a method."""

import itertools
from collections.abc import Sequence
from functools import partial

from momentalign._validation import check_choice
from momentalign.probing._methods import ALIGNMENT_GRID, SOLVERS, find_method
from momentalign.probing._probe_recipes import ProbeRecipe
from momentalign.published import published_as


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
    grid = dict(method.grid) if solver in method.tuned else {}
    grid = {
        key: (*recipe.more_weights, *values) if values is ALIGNMENT_GRID else values for key, values in grid.items()
    }
    best = dict(recipe.best.get(published_as(name), {}))
    if solver == "sgd" and method.penalty is not None:
        grid["anneal_steps"] = recipe.anneal_grid(train_rows)
        if name in recipe.counting:
            count = partial(recipe.training_step, train_rows=train_rows, evaluation_rows=evaluation_rows)
            grid["anneal_steps"] = tuple(map(count, grid["anneal_steps"]))
            best |= {"anneal_steps": count(int(best["anneal_steps"]))} if "anneal_steps" in best else {}
    sets = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    best = {key: value for key, value in best.items() if key in grid}
    return [best, *(one for one in sets if one != best)] if best and set(best) == set(grid) else sets
