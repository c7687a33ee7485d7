"""Settings of the paper for its three data sets, and defaults for others."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from momentalign._validation import check_choice
from momentalign.published import BEST_PROBES

BATCH = 500
LEARNING_RATE = 1e-3


@dataclass(frozen=True)
class ProbeRecipe:
    """Settings of the protocol for a data set.

    Args:
        name: Of the data set.
        epochs: Passes over the training rows (SGD).
        anneal_steps: Annealing steps to search (SGD); None takes five values up to nearly all steps.
        isr_class: Class that ISR compares, as an index; None chooses by worst-group validation accuracy.
        best: The published best hyper-parameters of some methods.
        unit_scale: Whether features are scaled to a mean square of one; the published weights are for unscaled ones.
    """

    name: str
    epochs: int = 50
    anneal_steps: tuple[int, ...] | None = None
    isr_class: int | None = None
    best: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    unit_scale: bool = False

    def steps(self, train_rows: int) -> int:
        """Steps of SGD; the last batch of an epoch may be smaller."""
        return -(-train_rows // BATCH) * self.epochs

    def anneal_grid(self, train_rows: int) -> tuple[int, ...]:
        """Annealing steps to search."""
        if self.anneal_steps is not None:
            return self.anneal_steps
        quarter = round(0.24 * self.steps(train_rows))  # as in the published grids, but for rounding
        return tuple(dict.fromkeys(quarter * k for k in range(5)))


def _best(name: str) -> dict[str, Mapping[str, float]]:
    return {method: {hparam: values[name] for hparam, values in BEST_PROBES[method].items()} for method in BEST_PROBES}


_RECIPES = {
    recipe.name: recipe
    for recipe in (
        ProbeRecipe("waterbirds", 300, tuple(range(0, 2801, 700)), 0, _best("waterbirds")),
        ProbeRecipe("celeba", 50, tuple(range(0, 16001, 4000)), 0, _best("celeba")),
        ProbeRecipe("multinli", 3, tuple(range(0, 1201, 300)), 2, _best("multinli")),
        ProbeRecipe("table", unit_scale=True),
    )
}


def recipe_for(name: str) -> ProbeRecipe:
    """Look up a recipe: `"waterbirds"`, `"celeba"`, `"multinli"`, or `"table"` for any other data.

    Example:
        >>> recipe_for("celeba").epochs
        50
    """
    return _RECIPES[check_choice("recipe", name, _RECIPES)]
