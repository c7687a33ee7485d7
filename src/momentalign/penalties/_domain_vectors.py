"""Penalties as one vector per domain: linear in the number of rows, and rows may have weights.

For full-batch fits. A penalty's Gram matrices are n × n, which suits mini-batches; a domain's own sums need n·C·d
numbers, and their derivatives give the Gauss-Newton curvature of the penalty.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class DomainRows(NamedTuple):
    """Rows of one domain and the output of a head for them: X (n, d), shares u (n,), P (n, C), residuals R (n, C)."""

    X: Tensor
    u: Tensor
    P: Tensor
    R: Tensor
    losses: Tensor

    @classmethod
    def of(cls, features: Tensor, shares: Tensor, targets: Tensor, logits: Tensor) -> "DomainRows":
        """Evaluate the cross-entropy of logits (n, C); the shares sum to one."""
        logs = logits.log_softmax(1)
        P = logs.exp()
        hot = torch.nn.functional.one_hot(targets, logits.shape[1]).to(P.dtype)
        return cls(features, shares, P, P - hot, -(logs * hot).sum(1))

    def mean_loss(self) -> Tensor:
        """Mean loss of the domain, a scalar."""
        return self.u @ self.losses

    def mean_outer(self, left: Tensor, right: Tensor) -> Tensor:
        """Mean of the outer products of two vectors per row, (C, d)."""
        return (left * self.u[:, None]).T @ right

    def gradient(self) -> Tensor:
        """Gradient of the mean loss by the head, (C, d)."""
        return self.mean_outer(self.R, self.X)

    def hessian_times(self, G: Tensor) -> Tensor:
        """Hessian of the mean loss times G (C, d)."""
        along = self.X @ G.T
        return self.mean_outer(self.P * (along - (self.P * along).sum(1, keepdim=True)), self.X)


class DomainVectors(NamedTuple):
    """A vector per domain, (K, …), whose mean squared length, or distance from the mean, is a term of a penalty."""

    values: Tensor
    centred: bool = True
    divisor: float = 1.0

    def deviations(self) -> Tensor:
        """Vectors whose mean squared length, over the divisor, is the term."""
        return self.values - self.values.mean(0) if self.centred else self.values

    def term(self) -> Tensor:
        """The term, a scalar."""
        return self.deviations().square().sum() / (len(self.values) * self.divisor)


def stack_gradients(domains: list[DomainRows]) -> Tensor:
    """Gradients of the domains' mean losses, (K, C, d)."""
    return torch.stack([rows.gradient() for rows in domains])
