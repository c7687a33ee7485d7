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
from momentalign.sklearn import GroupRobustClassifier, MomentAlignedClassifierCV

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
    """How a method is made from the rows and a setting, what it is given of the training rows, and its settings.

    The first setting, `{}`, is the method as it is shipped.
    """

    make: Callable[..., Any]
    needs: str
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
    "erm": Remedy(_logistic, "labels", _L2),
    "class-balanced": Remedy(lambda rows, **o: _logistic(rows, class_weight="balanced", **o), "labels", _L2),
    "jtt": Remedy(
        _robust("jtt"),
        "labels",
        _grid(upweights=_single(2.0, 5.0, 20.0, 50.0), first_l2_factors=_single(1.0, 1000.0), l2_factor=(1.0, 100.0)),
    ),
    "afr": Remedy(
        _robust("afr"),
        "labels",
        _grid(gammas=_single(0.0, 0.5, 1.0, 2.0, 4.0, 8.0), afr_l2s=_single(1.0, 0.1, 0.01)),
    ),
    "balanced": Remedy(_robust("balanced"), "groups", _L2),
    "subsampled": Remedy(_robust("subsampled"), "groups", _L2),
    "groupdro": Remedy(_robust("groupdro"), "groups", _grid(l2_factor=(10.0, 100.0, 1e3))),
    "dfr": Remedy(_robust("dfr"), "groups", _CS),
    "dfr-train": Remedy(_robust("dfr", refit_on="training", validation=0.5), "groups", _CS),
    "cma": Remedy(
        _robust("cma"), "groups, attributes", _grid(gradient_weight=(1.0, 10.0, 100.0), l2_factor=L2_FACTORS)
    ),
    "search": Remedy(lambda rows: MomentAlignedClassifierCV(selection="worst_group"), "groups, attributes", ({},)),
}
"""In the order of the tables."""


def describe_choice(model: Any) -> str:
    """What a model chose by itself, empty if it chooses nothing."""
    if isinstance(model, MomentAlignedClassifierCV):
        weights = {"gradient": model.gradient_weight_, "Hessian": model.hessian_weight_}
        aligned = [f"{order} {weight:g}" for order, weight in weights.items() if weight]
        return ", ".join([model.method_ or "no remedy", f"{model.l2_factor_:g}/n", *aligned])
    names = {"C_": "C", "gamma_": "γ", "afr_l2_": "L2", "upweight_": "upweight", "first_l2_factor_": "first L2"}
    return ", ".join(f"{name} {getattr(model, key):g}" for key, name in names.items() if hasattr(model, key))


def fit_settings(method: str, rows: FitArrays) -> Iterator[tuple[Options, Any]]:
    """Yield every setting of a method with the fitted model."""
    remedy = METHODS[method]
    for options in remedy.settings:
        model = remedy.make(rows, **options)
        arguments: Options = {}
        if remedy.needs != "labels":
            arguments = {"groups": rows.groups, "domains": rows.attributes}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            yield options, model.fit(rows.features, rows.targets, **arguments)
