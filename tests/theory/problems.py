"""Small random domains, and derivatives of their losses by torch.func."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from momentalign.theory import DomainLosses, mixture_transfers
from tests.references import dense_derivatives, domain_losses

LOSSES = ("cross_entropy", "logistic", "squared_error")


def make_losses(
    loss: str = "cross_entropy",
    *,
    seed: int = 0,
    K: int = 3,
    rows: int = 12,
    d: int = 2,
    C: int = 3,
    shift: float = 1.0,
    l2: float = 1e-2,
) -> DomainLosses:
    """Domains whose features differ by a random shift, with random targets."""
    rng = np.random.default_rng(seed)
    domains = np.repeat(np.arange(K), rows)
    X = rng.normal(size=(K * rows, d)) + shift * rng.normal(size=(K, d))[domains]
    if loss == "squared_error":
        return DomainLosses(X, rng.normal(size=(K * rows, C)), domains, loss=loss, l2=l2)
    # All classes are present, whatever the draw.
    y = rng.permutation(np.arange(K * rows) % (2 if loss == "logistic" else C))
    return DomainLosses(X, y, domains, loss=loss, l2=l2)


def quadratics(curvatures: list[float], optima: list[float], l2: float = 1e-9) -> DomainLosses:
    """Domains e with the losses ½ a_e (θ − c_e)² + const of one parameter, L2 too small to matter."""
    roots = np.sqrt(np.array(curvatures))
    names = np.arange(len(roots))
    return DomainLosses(roots[:, None], roots * optima, names, loss="squared_error", bias=False, l2=l2)


def plane_quadratics(curvatures: list[np.ndarray], optima: np.ndarray, l2: float = 1e-9) -> DomainLosses:
    """Domains e with the losses ½ (θ − c_e)ᵀA_e(θ − c_e) + const of two parameters, for diagonal A_e."""
    X = np.concatenate([np.sqrt(2 * matrix) for matrix in curvatures])
    domains = np.repeat(np.arange(len(curvatures)), 2)
    y = (X * optima[domains]).sum(1)
    return DomainLosses(X, y, domains, loss="squared_error", bias=False, l2=l2)


def mixture_transfer(losses: DomainLosses, source: Any, target: Any, center: Any, radius: float) -> float:
    """T(source‖target) between two mixtures."""
    transfers, _ = mixture_transfers(losses, [source, target], [(0, 1)], center, radius)
    return float(transfers[0, 1])


def random_head(losses: DomainLosses, seed: int = 0) -> Tensor:
    return torch.randn(losses.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def reference_values(losses: DomainLosses, head: Tensor) -> Tensor:
    """The domains' losses, L2 included, without any closed form."""
    plain = domain_losses(losses.loss, losses.features, head, losses.targets, losses.domains)
    return plain + losses.l2 / 2 * head.square().sum()


def reference_derivatives(order: int, losses: DomainLosses, head: Tensor) -> Tensor:
    """Their derivatives without the L2 term, flattened."""
    return dense_derivatives(order, losses.loss, losses.features, head, losses.targets, losses.domains)
