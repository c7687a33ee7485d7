"""What a loop or a sweep has to know of an algorithm: how to build it and what to search."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from momentalign._validation import check_count
from momentalign.algorithms._base import Algorithm
from momentalign.algorithms._erm import ERM
from momentalign.algorithms._network import Network
from momentalign.algorithms._search import Hyperparameter, SearchSpace, check_hyperparameters, shared_space
from momentalign.penalties import DomainPenalty

Space = Callable[[str, int], SearchSpace]
"""From recipe and steps to the hyper-parameters of an algorithm's own."""


@dataclass(frozen=True)
class AlgorithmSpec:
    """An algorithm by name.

    Attributes:
        name: As people type it.
        label: As tables print it.
        make: Makes the algorithm of checked hyper-parameters.
        own_space: Its own hyper-parameters.
    """

    name: str
    label: str
    make: Callable[[Network, int, Mapping[str, Any]], Algorithm]
    own_space: Space

    def space(self, recipe: str, steps: int) -> SearchSpace:
        """All hyper-parameters.

        Args:
            recipe: `"mnist"`, `"image"`, `"text"` or `"table"`.
            steps: Length of the run, which annealing is scaled to.

        Returns:
            Default and draw of each, by name: the shared ones, then the algorithm's own.
        """
        check_count("steps", steps, 1)
        return {**shared_space(recipe), **self.own_space(recipe, steps)}

    def build(self, network: Network, num_domains: int, hparams: Mapping[str, Any]) -> Algorithm:
        """Make the algorithm.

        Args:
            network: What is trained.
            num_domains: Number of training domains.
            hparams: A value for each hyper-parameter, as :func:`draw_hyperparameters` gives them.

        Returns:
            The algorithm.

        Raises:
            ValueError: A name is unknown or missing.
        """
        space = self.space("mnist", 1)  # names and types, which no recipe changes
        checked = check_hyperparameters(space, hparams)
        missing = [name for name in space if name not in checked]
        if missing:
            raise ValueError(
                f"'hparams' of '{self.name}' should have all of {', '.join(space)}, but '{missing[0]}' is missing. "
                "Take draw_hyperparameters(find_algorithm(name).space(recipe, steps), seed)."
            )
        return self.make(network, num_domains, checked)


def penalty_spec(name: str, label: str, penalty: Callable[..., DomainPenalty], space: Space) -> AlgorithmSpec:
    """ERM with a penalty of this package.

    Args:
        name: As people type it.
        label: As tables print it.
        penalty: Takes the hyper-parameters of `space` and `num_domains` as keywords.
        space: The penalty's hyper-parameters.

    Returns:
        The algorithm.
    """

    def make(network: Network, num_domains: int, hparams: Mapping[str, Any]) -> Algorithm:
        own = {name: hparams[name] for name in space("mnist", 1)}
        return ERM(network, num_domains, hparams, penalty(**own, num_domains=num_domains))

    return AlgorithmSpec(name, label, make, space)


def class_spec(name: str, label: str, cls: type[Algorithm] | type[DomainPenalty]) -> AlgorithmSpec:
    """Any algorithm, or ERM with any penalty, by its class.

    Its hyper-parameters are those of the class's own `search_space(recipe, steps)`; where it has none, the keyword
    arguments of its constructor whose default is a number, fixed at that number.

    Args:
        name: As people type it.
        label: As tables print it.
        cls: The class.

    Returns:
        The algorithm.
    """
    accepted = inspect.signature(cls).parameters
    fixed = {
        argument: Hyperparameter(parameter.default)
        for argument, parameter in accepted.items()
        if type(parameter.default) in (int, float)
    }

    def space(recipe: str, steps: int) -> SearchSpace:
        declared: Space | None = getattr(cls, "search_space", None)
        return (declared(recipe, steps) if declared else {}) or fixed

    def make(network: Network, num_domains: int, hparams: Mapping[str, Any]) -> Algorithm:
        own = {name: hparams[name] for name in space("mnist", 1) if name in accepted}
        if issubclass(cls, Algorithm):
            return cls(network, num_domains, hparams, **own)
        known = {"num_domains": num_domains} if "num_domains" in accepted else {}
        make_penalty: Callable[..., DomainPenalty] = cls
        return ERM(network, num_domains, hparams, make_penalty(**own, **known), capturable=_is_capturable(cls))

    return AlgorithmSpec(name, label, make, space)


def _is_capturable(penalty: type[DomainPenalty]) -> bool:
    """Whether a penalty says of itself that it reads nothing back; nobody else can know."""
    return bool(getattr(penalty, "capturable", False))
