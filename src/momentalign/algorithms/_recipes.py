"""Defaults of each kind of data set: length of a run, its records, and the hyper-parameters of every algorithm."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from momentalign._validation import check_choice
from momentalign.algorithms._search_space import PROTOCOL_STEPS, Draw, Hyperparameter, SearchSpace, power_of_ten


@dataclass(frozen=True)
class Recipe:
    """Defaults of a kind of data set.

    Args:
        shared: Hyper-parameters of every algorithm.
        record_every: Steps between records; None for a third of the run.
        steps: Length of a run; None for three epochs.
        average: Average of the weights that is recorded beside them.
        halved: Whether penalties that are annealed start at half of the steps.
        batch_moments: Whether records have the gaps of feature moments between mini-batches, as in the VLCS figure.
        weights: Hyper-parameters whose default differs from the algorithm's own, by algorithm.
    """

    shared: SearchSpace
    record_every: int | None
    steps: int | None = PROTOCOL_STEPS
    average: str = "none"
    halved: bool = False
    batch_moments: bool = False
    weights: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def adapt(self, algorithm: str, space: SearchSpace, steps: int) -> SearchSpace:
        """An algorithm's own space with this recipe's defaults."""
        changed = {name: replace(space[name], default=own) for name, own in self.weights.get(algorithm, {}).items()}
        if self.halved and "anneal_steps" in space:
            changed["anneal_steps"] = Hyperparameter(steps // 2, low=0)
        return {**space, **changed}

    def average_start(self, steps: int, boundary: int | None) -> int:
        """First step of a simple average, and of the search for a valley.

        After 2% of the steps; with a penalty that annealing switches on, 4% of the steps after that boundary, but at
        most half of what is left: of 5,001 steps these are 100 and 200. Where the recipe has a boundary, a quarter of
        what is left after it, for every algorithm: in short runs the first steps with a penalty are far from the rest.

        Example:
            >>> mnist, digits = find_training_recipe("mnist"), find_training_recipe("digits")
            >>> mnist.average_start(5001, None), mnist.average_start(5001, 500), digits.average_start(800, None)
            (100, 700, 500)
        """
        boundary = boundary or (steps // 2 if self.halved else steps)
        if boundary >= steps:
            return steps // 50
        left = steps - boundary
        return boundary + (left // 4 if self.halved else min(steps // 25, left // 2))


def _shared(
    lr: float, rates: Draw, batch_size: int, *, decay: Draw | None, dropout: float = 0.0, text: bool = False
) -> SearchSpace:
    """Hyper-parameters of every algorithm; `clip` is the largest norm of the gradient, 0 for no limit."""
    return {
        "lr": Hyperparameter(lr, rates, low=0),
        "weight_decay": Hyperparameter(0.0, decay, low=0),
        "batch_size": Hyperparameter(batch_size, low=1),
        "dropout": Hyperparameter(dropout, low=0, high=1),
        "optimizer": Hyperparameter("adamw" if text else "adam", choices=("adam", "adamw")),
        "schedule": Hyperparameter("linear" if text else "constant", choices=("constant", "linear")),
        "clip": Hyperparameter(1.0 if text else 0.0, low=0),
    }


_SMALL_RATES, _DECAY = power_of_ten(-4.5, -2.5), power_of_ten(-6, -2)

_RECIPES = {
    "mnist": Recipe(_shared(1e-3, _SMALL_RATES, 64, decay=None), 100),
    # Small images whose labels are noisy: measured in docs/results/colored-digits.md.
    "digits": Recipe(
        _shared(2e-3, power_of_ten(-3, -2), 128, decay=None),
        40,
        steps=800,
        average="sma",
        halved=True,
        weights={"vrex": {"weight": 100.0}},
    ),
    "image": Recipe(_shared(5e-5, power_of_ten(-5, -3.5), 32, decay=_DECAY, dropout=0.1), 300, batch_moments=True),
    "text": Recipe(_shared(2e-5, power_of_ten(-5, -4), 32, decay=_DECAY, dropout=0.1, text=True), None, steps=None),
    "table": Recipe(_shared(1e-3, _SMALL_RATES, 64, decay=_DECAY), 100),
}


def find_training_recipe(name: str) -> Recipe:
    """The recipe "mnist", "digits", "image", "text" or "table"."""
    return _RECIPES[check_choice("recipe", name, tuple(_RECIPES))]
