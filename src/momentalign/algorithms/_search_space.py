"""Search spaces: hyper-parameters with a default and a seeded random draw."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from momentalign._format import suggest
from momentalign._seeds import seed_hash
from momentalign._validation import check_choice, check_count

Draw = Callable[[np.random.RandomState], Any]

PROTOCOL_STEPS = 5001
"""Length of a run of the DomainBed protocol, which its annealing values are for."""


@dataclass(frozen=True)
class Hyperparameter:
    """A default, and how a random search draws another value.

    Attributes:
        default: Value of hyper-parameter seed 0, a number or a string; its type is the type of all values.
        draw: Draws a value from a generator; None keeps the default in every draw.
        choices: Allowed values of a string.
        low: Smallest allowed number.
        high: Largest allowed number.
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

    Each value comes from a generator keyed by the seed and its own name, so draws do not change when another name is
    added to the space. `overrides` replace drawn values.

    Example:
        >>> space = {"weight": Hyperparameter(1.0, power_of_ten(-1, 1)), "clip": Hyperparameter(0.0)}
        >>> draw_hyperparameters(space, 0, {"clip": 1})
        {'weight': 1.0, 'clip': 1.0}
    """
    check_count("hparams_seed", seed, 0)
    values = {name: one.default for name, one in space.items()}
    for name, one in space.items():
        if seed > 0 and one.draw is not None:
            # The stream of RandomState is frozen: a seed gives the same values with every release of NumPy.
            values[name] = one.draw(np.random.RandomState(seed_hash(seed, name)))
    return values | check_hyperparameters(space, overrides or {})


def check_hyperparameters(space: SearchSpace, values: Mapping[str, Any]) -> dict[str, Any]:
    """Check names and values against a space, and convert integers to floats where the default is one."""
    checked = {}
    for name, value in values.items():
        if name not in space:
            raise ValueError(
                f"There is no hyper-parameter '{name}'. There are: {', '.join(space)}.{suggest(name, space)}"
            )
        checked[name] = _check_value(name, value, space[name])
    return checked


def power_of_ten(low: float, high: float) -> Draw:
    """Draw 10 to the power of a uniform number."""
    return lambda random: float(10 ** random.uniform(low, high))


def power_of_two(low: float, high: float) -> Draw:
    """Draw 2 to the power of a uniform number."""
    return lambda random: float(2 ** random.uniform(low, high))


def uniform(low: float, high: float) -> Draw:
    """Draw a uniform number."""
    return lambda random: float(random.uniform(low, high))


def one_of(*values: Any) -> Draw:
    """Draw one of the values."""
    return lambda random: values[random.randint(len(values))]


def whole(draw: Draw) -> Draw:
    """Draw the integer part of another draw."""
    return lambda random: int(draw(random))


def annealing(default: int, draw: Draw, steps: int) -> Hyperparameter:
    """Annealing steps of the protocol, scaled to the length of the run: round(a · steps / 5001)."""
    return Hyperparameter(
        round(default * steps / PROTOCOL_STEPS), lambda random: round(draw(random) * steps / PROTOCOL_STEPS)
    )


def scale_annealing(space: SearchSpace, steps: int) -> SearchSpace:
    """A space of the table of algorithms for runs of so many steps."""
    anneal = space.get("anneal_steps")
    if anneal is None or anneal.draw is None:
        return space
    return {**space, "anneal_steps": annealing(anneal.default, anneal.draw, steps)}


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
