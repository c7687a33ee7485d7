"""Hyper-parameters: named, with a default and a seeded draw, and the ones that every algorithm has."""

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from momentalign._seeds import seed_hash
from momentalign._validation import check_choice, check_count

Draw = Callable[[np.random.RandomState], Any]

RECIPES = ("mnist", "image", "text", "table")
"""Kinds of data set that learning rate, batch size and the like go by."""

PROTOCOL_STEPS = 5001
"""Length of a run that the protocol's annealing values are for."""


@dataclass(frozen=True)
class Hyperparameter:
    """A default, and how a random search draws another value.

    Attributes:
        default: Value of hyper-parameter seed 0, a number or a word; its type is the type of all values.
        draw: Takes a generator and gives a value; None keeps the default in every draw.
        choices: Allowed values of a word.
        low: Least allowed number.
        high: Greatest allowed number.
    """

    default: Any
    draw: Draw | None = None
    choices: tuple[str, ...] | None = None
    low: float = -math.inf
    high: float = math.inf


SearchSpace = Mapping[str, Hyperparameter]
"""Hyper-parameters by name."""


def draw_hyperparameters(space: SearchSpace, seed: int, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Values for a hyper-parameter seed: the defaults for 0, a random draw for any other.

    Each value comes from a generator keyed by the seed and its own name, so draws do not move when another name is
    added to the space.

    Args:
        space: What is searched.
        seed: Number of the draw.
        overrides: Values that stand whatever the seed says.

    Returns:
        A value for each name, in the space's order.

    Example:
        >>> space = {"weight": Hyperparameter(1.0, power_of_ten(-1, 1)), "clip": Hyperparameter(0.0)}
        >>> draw_hyperparameters(space, 0, {"clip": 1})
        {'weight': 1.0, 'clip': 1.0}
    """
    check_count("hparams_seed", seed, 0)
    values = {name: _draw(name, hyperparameter, seed) for name, hyperparameter in space.items()}
    return values | check_hyperparameters(space, overrides or {})


def check_hyperparameters(space: SearchSpace, values: Mapping[str, Any]) -> dict[str, Any]:
    """Check names and values against a space; whole numbers become floating ones where the default is one.

    Args:
        space: What there is.
        values: Some of its hyper-parameters.

    Returns:
        The values.

    Raises:
        ValueError: A name that the space does not have.
    """
    checked = {}
    for name, value in values.items():
        if name not in space:
            near = difflib.get_close_matches(name, space, 1)
            raise ValueError(
                f"There is no hyper-parameter '{name}'. There are: {', '.join(space)}."
                + (f" Meant '{near[0]}'?" if near else "")
            )
        checked[name] = _check_value(name, value, space[name])
    return checked


def power_of_ten(low: float, high: float) -> Draw:
    """10 to the power of a number between `low` and `high`."""
    return lambda random: float(10 ** random.uniform(low, high))


def uniform(low: float, high: float) -> Draw:
    """A number between `low` and `high`."""
    return lambda random: float(random.uniform(low, high))


def one_of(*values: Any) -> Draw:
    """One of the values."""
    return lambda random: values[random.randint(len(values))]


def whole(draw: Draw) -> Draw:
    """Another draw's whole part."""
    return lambda random: int(draw(random))


def power_of_two(low: float, high: float) -> Draw:
    """2 to the power of a number between `low` and `high`."""
    return lambda random: float(2 ** random.uniform(low, high))


def annealing(default: int, draw: Draw, steps: int) -> Hyperparameter:
    """Annealing values of the protocol, in proportion to the length of the run: round(a · steps / 5001)."""
    return Hyperparameter(_scaled(default, steps), lambda random: _scaled(draw(random), steps))


def shared_space(recipe: str) -> dict[str, Hyperparameter]:
    """Hyper-parameters that every algorithm has.

    `lr`, `weight_decay`, `optimizer` and `clip` (largest norm of the gradient, 0 for no limit) are the algorithm's
    to use; `batch_size` (rows of each domain), `dropout` and `schedule` (of the learning rate) those of whoever
    builds the network and runs the loop.

    Args:
        recipe: `"mnist"`, `"image"`, `"text"` or `"table"`.

    Returns:
        The space.
    """
    check_choice("recipe", recipe, RECIPES)
    small, text = recipe in ("mnist", "table"), recipe == "text"
    rates = {
        "mnist": Hyperparameter(1e-3, power_of_ten(-4.5, -2.5), low=0),
        "table": Hyperparameter(1e-3, power_of_ten(-4.5, -2.5), low=0),
        "image": Hyperparameter(5e-5, power_of_ten(-5, -3.5), low=0),
        "text": Hyperparameter(2e-5, power_of_ten(-5, -4), low=0),
    }
    return {
        "lr": rates[recipe],
        "weight_decay": Hyperparameter(0.0, None if recipe == "mnist" else power_of_ten(-6, -2), low=0),
        "batch_size": Hyperparameter(64 if small else 32, low=1),
        "dropout": Hyperparameter(0.0 if small else 0.1, low=0, high=1),
        "optimizer": Hyperparameter("adamw" if text else "adam", choices=("adam", "adamw")),
        "schedule": Hyperparameter("linear" if text else "constant", choices=("constant", "linear")),
        "clip": Hyperparameter(1.0 if text else 0.0, low=0),
    }


def _scaled(value: float, steps: int) -> int:
    return round(value * steps / PROTOCOL_STEPS)


def _draw(name: str, hyperparameter: Hyperparameter, seed: int) -> Any:
    if seed == 0 or hyperparameter.draw is None:
        return hyperparameter.default
    # RandomState: its stream is frozen, so a seed means the same values on every release of numpy.
    return hyperparameter.draw(np.random.RandomState(seed_hash(seed, name)))


def _check_value(name: str, value: Any, hyperparameter: Hyperparameter) -> Any:
    default, low, high = hyperparameter.default, hyperparameter.low, hyperparameter.high
    if hyperparameter.choices is not None:
        return check_choice(name, value, hyperparameter.choices)
    kind, kinds = ("whole number", Integral) if isinstance(default, int) else ("number", Real)
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise TypeError(f"Hyper-parameter '{name}' should be a {kind}, but is {value!r}.")
    if not (math.isfinite(value) and low <= float(value) <= high):
        bounds = [f"at least {low:g}"] * (low > -math.inf) + [f"at most {high:g}"] * (high < math.inf)
        raise ValueError(f"Hyper-parameter '{name}' should be {' and '.join(bounds) or 'finite'}, but is {value}.")
    return type(default)(value)
