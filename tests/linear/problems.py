"""Small problems, and the objective of a linear head written with the package's penalties."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from momentalign import MomentAlignment
from tests.references import domain_losses

SCALINGS = ("none", "classes", "parameters", "relative")


@dataclass(frozen=True)
class Problem:
    """Rows of three domains of different sizes, labels out of order; 0 classes are a regression with two outputs."""

    classes: int
    features: NDArray[np.float64]
    targets: NDArray[Any]
    domains: NDArray[np.int64]

    @property
    def loss(self) -> str:
        return "cross_entropy" if self.classes else "squared_error"

    @property
    def columns(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        return self.features, self.targets, self.domains

    def repeated(self, times: NDArray[np.int64]) -> "Problem":
        return Problem(self.classes, *(np.repeat(column, times, axis=0) for column in self.columns))


def make_problem(classes: int, n: int = 60, d: int = 4, domains: int = 3, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    labels = np.array([5, -3, 9, 2, 7])[:domains]
    places = np.minimum(rng.geometric(0.4, n) - 1, domains - 1)
    places[:domains] = np.arange(domains)
    targets = rng.integers(0, max(classes, 2), n)
    features = rng.normal(size=(n, d)) + 0.7 * rng.normal(size=(max(classes, 2), d))[targets]
    features += 0.5 * rng.normal(size=(domains, d))[places]
    if not classes:
        targets = np.column_stack([targets, features[:, 0]]) + rng.normal(size=(n, 2))
    return Problem(classes, features, targets, labels[places])


def reference(
    problem: Problem, head: NDArray[np.float64], weights: Mapping[int, float], *, l2: float, scaling: str, bias: bool
) -> tuple[float, NDArray[np.float64]]:
    """Value and gradient through penalty and autograd; for two classes one logit is given, as logits (−z/2, z/2)."""
    leaf = torch.tensor(head, requires_grad=True)
    full = torch.cat([-leaf / 2, leaf / 2]) if problem.classes == 2 else leaf
    features, targets, domains = map(torch.as_tensor, problem.columns)
    constant: Tensor = features.new_ones(len(features), 1)
    logits = (torch.cat([features, constant], 1) if bias else features) @ full.T
    penalty = MomentAlignment(dict(weights), loss=problem.loss, scaling=scaling, bias=bias)
    coef = leaf[:, :-1] if bias else leaf
    value = domain_losses(problem.loss, features, full, targets, domains).mean()
    value = value + 0.5 * l2 * coef.square().sum() + penalty(features, logits, targets, domains)
    value.backward()
    assert leaf.grad is not None
    return value.item(), leaf.grad.numpy()
