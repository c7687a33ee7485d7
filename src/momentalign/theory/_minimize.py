"""Heads that minimize mixtures of the domains' losses."""

import warnings
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from momentalign._types import Array
from momentalign.theory._losses import DomainLosses, WeightedLoss


def mixture_minimizer(losses: DomainLosses, mixture: Any, start: Tensor | None = None) -> Tensor:
    """Head θ(w) that minimizes Σ_e w_e L_e, for non-negative weights w (K,), to rounding."""
    function, scale = losses.mixture(mixture), losses.inputs.square().mean(0).sqrt().clamp(min=1e-300)
    # Columns in units of their size: conjugate gradients are slow where the units differ.
    scaled = function._replace(inputs=function.inputs / scale, l2=function.l2 / scale.square())

    def head(flat: Array) -> Tensor:
        return torch.from_numpy(flat).reshape(losses.shape)

    def evaluate(flat: Array) -> tuple[float, Array]:
        values, slopes = scaled.evaluate(head(flat)[None])
        return values.item(), slopes.flatten().numpy()

    begin = torch.zeros(losses.shape, dtype=torch.float64) if start is None else start * scale
    found = minimize(
        evaluate,
        begin.flatten().numpy(),
        jac=True,
        hessp=lambda flat, vector: scaled.hessian_times(head(flat), head(vector)).flatten().numpy(),
        method="trust-ncg",
        options={"gtol": 1e-8},
    )
    if np.linalg.norm(found.jac) > 1e-6:
        warnings.warn(
            "A head did not converge. Standardise the features or raise 'l2'.", ConvergenceWarning, stacklevel=2
        )
    # Differences of values are rounding here; a last Newton step does not need them.
    best = head(found.x)
    return (best - solve_hessian(scaled, best, scaled.evaluate(best[None])[1])[0]) / scale


def solve_hessian(function: WeightedLoss, head: Tensor, right: Tensor) -> Tensor:
    """Solve Hessian · x = right at a head for each of the matrices `right` (m, C, D)."""
    size = head.numel()

    def product(vector: Array) -> Array:
        result: Array = function.hessian_times(head, torch.from_numpy(vector).reshape(head.shape)).flatten().numpy()
        return result

    hessian = LinearOperator((size, size), product, dtype=np.float64)
    columns = [cg(hessian, b.flatten().numpy(), rtol=1e-12, maxiter=10 * size)[0] for b in right]
    return torch.from_numpy(np.stack(columns)).reshape(right.shape)
