"""An algorithm by name: how to build it, and its search space for each preset."""

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from momentalign._validation import check_choice, check_count
from momentalign.algorithms._base import Algorithm, Network
from momentalign.algorithms._erm import ERM
from momentalign.algorithms._recipes import find_training_recipe
from momentalign.algorithms._search_space import Hyperparameter, SearchSpace, check_hyperparameters, scale_annealing
from momentalign.penalties import DomainPenalty, MomentAlignment

PRESETS = ("published", "safe", "released")
"""Search spaces of an algorithm: the paper's, one that is safe for any data and encoder, and the public code's."""

SAFE_WEIGHTS = (
    "so small (0.1; 0.01 to 1 are searched) that results are close to ERM's; --preset published searches the paper's, "
    "which gained on small networks trained from scratch and ruined a pretrained one"
)
"""What the weights of the preset "safe" do, as measured in docs/results/fine-tuning.md."""


@dataclass(frozen=True)
class AlgorithmSpec:
    """An algorithm by its name on the command line: an :class:`Algorithm` class, or a penalty's class for ERM.

    Attributes:
        name: Name or import path.
        cls: The class.
        title: Name in tables; by default the class's `label` or its own name.
        spaces: Hyper-parameters beside the shared ones, by preset; None takes those that the class declares.
    """

    name: str
    cls: type[Algorithm] | type[DomainPenalty]
    title: str = ""
    spaces: Mapping[str, SearchSpace] | None = None

    @property
    def label(self) -> str:
        """Name in tables; of a class that declares none, the class's name."""
        return self.title or str(vars(self.cls).get("label", self.cls.__name__))

    @property
    def term_labels(self) -> Mapping[str, str]:
        """Titles in a report of what the algorithm logs, by name."""
        return self.cls.term_labels

    def has_space(self, preset: str) -> bool:
        """Whether a preset has a search space of its own, which "published" always has."""
        return check_choice("preset", preset, PRESETS) in self._own_spaces("mnist", 1)

    def space(self, recipe: str, steps: int, preset: str = "published") -> SearchSpace:
        """All hyper-parameters: the shared ones, then the algorithm's own.

        Args:
            recipe: Kind of data set: `"mnist"`, `"digits"`, `"image"`, `"text"` or `"table"`.
            steps: Length of the run, which annealing is scaled to.
            preset: `"published"`; `"safe"` for data and encoders that the paper has no weights for; `"released"` for
                what the public code searches where that differs. Without its own space a preset is the published one.

        Returns:
            Default and draw of each, by name.
        """
        check_count("steps", steps, 1)
        check_choice("preset", preset, PRESETS)
        found = find_training_recipe(recipe)
        spaces = self._own_spaces(recipe, steps)
        own = spaces.get(preset, spaces["published"])
        return {**found.shared, **(found.adapt(self.name, own, steps) if preset == "published" else own)}

    def build(self, network: Network, num_domains: int, hparams: Mapping[str, Any]) -> Algorithm:
        """Make the algorithm.

        Args:
            network: The network to train.
            num_domains: Number of training domains.
            hparams: A value for each hyper-parameter, as :func:`draw_hyperparameters` gives them.

        Raises:
            ValueError: A name is unknown or missing.
        """
        space = self.space("mnist", 1)  # names and types, which are the same for every recipe
        known = {name: each for own in self._own_spaces("mnist", 1).values() for name, each in own.items()}
        checked = check_hyperparameters({**known, **space}, hparams)
        if missing := [name for name in space if name not in checked]:
            raise ValueError(
                f"'hparams' of '{self.name}' should have all of {', '.join(space)}, but '{missing[0]}' is missing."
            )
        own: dict[str, Any] = {name: checked[name] for name in known if name in checked}
        parameters = inspect.signature(self.cls).parameters
        if issubclass(self.cls, Algorithm):
            return self.cls(network, num_domains, checked, **{name: own[name] for name in own if name in parameters})
        if "num_domains" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            own["num_domains"] = num_domains
        if self.cls is MomentAlignment:
            names = "gradient_weight", "hessian_weight", "order_3_weight"
            own["order_weights"] = {order: own.pop(name) for order, name in enumerate(names, 1)}
        return ERM(network, num_domains, checked, self.cls(**own))

    def _own_spaces(self, recipe: str, steps: int) -> Mapping[str, SearchSpace]:
        """Hyper-parameters beside the shared ones, by preset."""
        if self.spaces is not None:
            return {preset: scale_annealing(space, steps) for preset, space in self.spaces.items()}
        if declared := getattr(self.cls, "search_space", None):
            return {"published": declared(recipe, steps)}
        arguments = inspect.signature(self.cls).parameters.values()
        numbers = {each.name: each.default for each in arguments if type(each.default) in (int, float)}
        return {"published": {name: Hyperparameter(default) for name, default in numbers.items()}}


def has_safe_weights(preset: str, hparams: Mapping[str, Any]) -> bool:
    """Whether a run's penalty has weights that :data:`SAFE_WEIGHTS` describes, and not larger ones by `--set`."""
    weights = [value for name, value in hparams.items() if name.endswith("_weight")]
    return preset == "safe" and hparams.get("scaling") == "relative" and max(weights, default=math.inf) <= 1
