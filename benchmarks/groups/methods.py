"""Methods of the study, with the settings among which validation rows choose."""

import warnings
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from momentalign.linear import PUBLISHED_CS
from momentalign.sklearn import GroupRobustClassifier

Options = dict[str, Any]
L2_FACTORS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
"""L2 in units of one over the rows of a fit; 1 is the default of all."""


class FitArrays(NamedTuple):
    """Rows after preprocessing."""

    features: NDArray[np.float64]
    targets: NDArray[np.str_]
    groups: NDArray[np.str_]
    attributes: NDArray[np.str_]

    def smallest(self) -> int:
        """Rows of a subsample with as many of every group as the smallest has."""
        sizes = np.unique(self.groups, return_counts=True)[1]
        return int(sizes.min() * len(sizes))


class Remedy(NamedTuple):
    """How a method is made from the rows and a setting, and its settings; the first, `{}`, is the method as shipped."""

    make: Callable[..., Any]
    settings: tuple[Options, ...]


def _logistic(rows: FitArrays, l2_factor: float = 1.0, **options: Any) -> LogisticRegression:
    return LogisticRegression(C=1.0 / l2_factor, max_iter=1000, **options)


def _robust(method: str, **fixed: Any) -> Callable[..., GroupRobustClassifier]:
    def make(rows: FitArrays, l2_factor: float | None = None, **options: Any) -> GroupRobustClassifier:
        number = rows.smallest() if method == "subsampled" else len(rows.targets)
        l2 = None if l2_factor is None else l2_factor / number
        return GroupRobustClassifier(method, l2=l2, **fixed, **options)

    return make


def _grid(**values: tuple[Any, ...]) -> tuple[Options, ...]:
    """The defaults, then all combinations."""
    return ({}, *(dict(zip(values, each, strict=True)) for each in product(*values.values())))


def _single(*values: float) -> tuple[tuple[float], ...]:
    """Candidates of an estimator that would choose among several: one in each setting."""
    return tuple((value,) for value in values)


_L2 = _grid(l2_factor=L2_FACTORS[1:])
_CS = _grid(Cs=_single(*PUBLISHED_CS))

METHODS = {
    "erm": Remedy(_logistic, _L2),
    "class-balanced": Remedy(lambda rows, **o: _logistic(rows, class_weight="balanced", **o), _L2),
    "balanced": Remedy(_robust("balanced"), _L2),
    "subsampled": Remedy(_robust("subsampled"), _L2),
    "groupdro": Remedy(_robust("groupdro"), _grid(l2_factor=(10.0, 100.0, 1e3))),
    "dfr": Remedy(_robust("dfr"), _CS),
    "dfr-train": Remedy(_robust("dfr", refit_on="training", validation=0.5), _CS),
    "cma": Remedy(_robust("cma"), _grid(gradient_weight=(1.0, 10.0, 100.0), l2_factor=L2_FACTORS)),
}

NEEDS = {
    "erm": "labels",
    "class-balanced": "labels",
    "jtt": "labels",
    "afr": "labels",
    **{method: "groups" for method in METHODS if method not in ("erm", "class-balanced", "cma")},
    "cma": "groups, attributes",
    "search": "groups, attributes",
}
"""What each method is given of the training rows, in the order of the tables.

`jtt`, `afr` and `search` have records only: commit b48b71d has their code.
"""


def describe_choice(model: Any) -> str:
    """What a model chose by itself, empty if it chooses nothing."""
    return f"C {model.C_:g}" if hasattr(model, "C_") else ""


def fit_settings(method: str, rows: FitArrays) -> Iterator[tuple[Options, Any]]:
    """Yield every setting of a method with the fitted model."""
    remedy = METHODS[method]
    for options in remedy.settings:
        model = remedy.make(rows, **options)
        arguments: Options = {}
        if NEEDS[method] != "labels":
            arguments = {"groups": rows.groups, "domains": rows.attributes}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            yield options, model.fit(rows.features, rows.targets, **arguments)
