"""Algorithms by name or import path: how to build each, and its search space."""

import importlib
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from momentalign._format import suggest
from momentalign._validation import check_choice, check_count
from momentalign.algorithms._base import Algorithm, Network
from momentalign.algorithms._erm import ERM
from momentalign.algorithms._recipes import find_training_recipe
from momentalign.algorithms._search_space import Hyperparameter, SearchSpace, check_hyperparameters
from momentalign.algorithms._spaces import PRESETS, algorithm_table
from momentalign.penalties import DomainPenalty, MomentAlignment


@dataclass(frozen=True)
class AlgorithmSpec:
    """An algorithm by its name on the command line: an :class:`Algorithm` class, or a penalty's class for ERM.

    Attributes:
        name: Name or import path.
        cls: The class.
        title: Name in tables; by default the class's `label` or its own name.
        row: Row of the table of search spaces; none for a class that is not of this package.
    """

    name: str
    cls: type[Algorithm] | type[DomainPenalty]
    title: str = ""
    row: str = ""

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
        if self.row:
            return algorithm_table(steps)[self.row].spaces
        if declared := getattr(self.cls, "search_space", None):
            return {"published": declared(recipe, steps)}
        arguments = inspect.signature(self.cls).parameters.values()
        numbers = {each.name: each.default for each in arguments if type(each.default) in (int, float)}
        return {"published": {name: Hyperparameter(default) for name, default in numbers.items()}}


_CATALOGUE = {name: AlgorithmSpec(name, row.cls, row.title, name) for name, row in algorithm_table(1).items()}
"""Algorithms in the order of tables; what an alias sets is in its search space."""

PLAIN_MODELS = {"logistic-regression": "LogisticRegression", "logistic-regression-cv": "LogisticRegressionCV"}
"""scikit-learn's models, with their labels, that sweeps of tables run as baselines."""


def algorithm_names() -> tuple[str, ...]:
    """Names that :func:`find_algorithm` knows without an import path, in the order of tables."""
    return tuple(_CATALOGUE)


def find_algorithm(name: str) -> AlgorithmSpec:
    """Find an algorithm by name or import path.

    Args:
        name: One of :func:`algorithm_names`, or `package.module:Name` (or `package.module.Name`), the import path of
            a :class:`DomainPenalty` or :class:`Algorithm`; modules in the current folder are found as well.

    Returns:
        How to build it, and its search space.

    Raises:
        ValueError: There is no such algorithm.

    Example:
        >>> find_algorithm("cma").label
        'CMA'
        >>> find_algorithm("momentalign.penalties:CORAL").space("mnist", 5001)["weight"].default
        1.0
    """
    if name in _CATALOGUE:
        return _CATALOGUE[name]
    if ":" in name:
        cls = _import_class(name)
        ours = (replace(spec, name=name) for spec in _CATALOGUE.values() if spec.cls is cls)
        return next(ours, AlgorithmSpec(name, cls))
    if "." in name:  # the other common way to write it
        return find_algorithm(":".join(name.rsplit(".", 1)))
    if name in PLAIN_MODELS:
        raise ValueError(
            f"'{name}' is no algorithm that trains a network. Use 'momentalign sweep' on a table, which runs it beside "
            "the algorithms, or 'momentalign probe'."
        )
    raise ValueError(
        f"There is no algorithm '{name}'. There are: {', '.join(_CATALOGUE)}; write your own as 'package.module:Name'."
        + suggest(name.lower(), _CATALOGUE)
    )


def _import_class(path: str) -> type[Algorithm] | type[DomainPenalty]:
    module_name, _, class_name = path.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), class_name)):
        raise ValueError(f"An import path should look like 'package.module:Name', but is '{path}'.")
    module = _import_module(path, module_name)
    cls = getattr(module, class_name, None)
    if not isinstance(cls, type) or not issubclass(cls, (Algorithm, DomainPenalty)) or inspect.isabstract(cls):
        lacking = "".join(f", which lacks {name}" for name in sorted(getattr(cls, "__abstractmethods__", ())))
        raise ValueError(f"'{path}' should be a concrete DomainPenalty or Algorithm class, but is {cls!r}{lacking}.")
    return cls


def _import_module(path: str, name: str) -> ModuleType:
    """Import a module, also from the current folder, which is not on the path of an installed command."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise ValueError(
            f"'{path}' should be the import path of a class, but there is no module '{error.name}' here or installed."
        ) from None
    except SyntaxError as error:
        raise ValueError(f"'{path}' cannot be imported: {error.msg} ({error.filename}, line {error.lineno}).") from None
    finally:
        sys.path.remove(here)
