"""Identities between the penalties of the family, as numbers computed from the domains' gradients and Hessians."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from momentalign import closed_form
from momentalign.closed_form import HEADS
from momentalign.theory._losses import DomainLosses


@dataclass(frozen=True)
class GradientConnections:
    """Penalties that are statistics of the domains' gradients.

    Attributes:
        spread: (1/K) Σ‖g_e − ḡ‖², gradient matching as CMA has it.
        irm: (1/K) Σ‖g_e‖², IRM's penalty.
        mean: ‖ḡ‖²: irm − spread.
        inner_products: (1/K)(Σ‖g_e‖² − ‖Σ g_e‖²), the penalty of the gradient-matching objective of inner products;
            spread − (K−1)/K² ‖Σ g_e‖².
    """

    spread: float
    irm: float
    mean: float
    inner_products: float


def gradient_connections(gram: Any) -> GradientConnections:
    """Penalties on gradients from the domains' inner products.

    Args:
        gram: Inner products of the domains' gradients, shape (K, K).

    Returns:
        The penalties, each computed by its own definition.

    Example:
        >>> gradient_connections([[1.0, 0.0], [0.0, 1.0]])
        GradientConnections(spread=0.5, irm=1.0, mean=0.5, inner_products=0.0)
    """
    matrix = torch.as_tensor(gram, dtype=torch.float64)
    number = len(matrix)
    spread, irm = float(closed_form.spread(matrix)), float(closed_form.norms(matrix))
    total = float(matrix.sum())
    return GradientConnections(spread, irm, total / number**2, irm - total / number)


@dataclass(frozen=True)
class HessianConnections:
    """Spreads of the parts of the domains' Hessians that different methods match.

    Attributes:
        full: (1/K) Σ‖H_e − H̄‖², what CMA matches.
        diagonal: The same of the diagonals, what Hutchinson's method estimates: never above `full`.
        along_mean_gradient: (1/K) Σ‖(H_e − H̄)ḡ‖², what HGP matches if the gradients agree: at most ‖ḡ‖²·`full`.
        mean_gradient: ‖ḡ‖².
    """

    full: float
    diagonal: float
    along_mean_gradient: float
    mean_gradient: float


def hessian_connections(losses: DomainLosses, head: Any) -> HessianConnections:
    """Spreads of the Hessians, of their diagonals and of their products with the mean gradient, without any Hessian.

    The L2 terms cancel in the spreads; the mean gradient includes its own.

    Args:
        head: Shape (C, D).
    """
    theta = losses.as_head(head)
    residuals = HEADS[losses.loss](losses.inputs @ theta.T, losses.targets)
    gradient = losses.gradients(theta).mean(0)

    def spread(rows: Tensor, features: Tensor) -> float:
        tensors = torch.einsum("nk,nc,nd->kcd", losses.weights, rows, features)
        return float((tensors - tensors.mean(0)).square().sum((1, 2)).mean())

    return HessianConnections(
        float(closed_form.spread(losses.gram(2, theta))),
        spread(residuals.hessian_diagonal(), losses.inputs.square()),
        spread(residuals.hessian_times(losses.inputs @ gradient.T), losses.inputs),
        float(gradient.square().sum()),
    )
