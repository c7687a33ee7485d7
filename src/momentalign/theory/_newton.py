"""Converged heads of weighted losses: Newton's method, with a factorised Hessian or by conjugate gradients."""

import warnings
from dataclasses import dataclass

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from momentalign import closed_form
from momentalign.closed_form import HEADS, Residuals
from momentalign.theory._inputs import Floats
from momentalign.theory._losses import DomainLosses, sample_losses

DENSE = 512
"""Parameters of the head up to which the Hessian is built and factorised."""

_ITERATIONS = 200
_SMALLEST_STEP = 2.0**-40


@dataclass(frozen=True, eq=False)
class WeightedLoss:
    r"""The function :math:`\sum_i v_i\,\ell(\theta x_i, y_i) + \frac\lambda2\|\theta\|^2` of a head.

    Args:
        loss: Name of the loss.
        inputs: Features with the constant, shape (n, D).
        targets: As the loss takes them.
        weights: v, shape (n,).
        l2: λ.
    """

    loss: str
    inputs: Tensor
    targets: Tensor
    weights: Tensor
    l2: float

    @staticmethod
    def mixture(losses: DomainLosses, mixture: Tensor) -> "WeightedLoss":
        """Σ_e a_e L_e for any signs of a (K,); rows without weight are left out."""
        weights = losses.weights @ mixture
        rows = weights.nonzero()[:, 0]
        total = losses.l2 * mixture.sum().item()
        return WeightedLoss(losses.loss, losses.inputs[rows], losses.targets[rows], weights[rows], total)

    def residuals(self, head: Tensor) -> Residuals:
        """Residual tensors of the rows at a head."""
        return HEADS[self.loss](self.inputs @ head.T, self.targets)

    def value(self, head: Tensor) -> float:
        """The function at a head."""
        samples = sample_losses(self.loss, self.inputs @ head.T, self.targets)
        return float(self.weights @ samples + self.l2 / 2 * head.square().sum())

    def gradient(self, head: Tensor, residuals: Residuals) -> Tensor:
        """Its gradient, shape (C, D)."""
        return (residuals.gradient * self.weights[:, None]).T @ self.inputs + self.l2 * head

    def hessian_times(self, residuals: Residuals, vector: Tensor) -> Tensor:
        """Its Hessian applied to a matrix (C, D)."""
        products = residuals.hessian_times(self.inputs @ vector.T)
        return (products * self.weights[:, None]).T @ self.inputs + self.l2 * vector

    def hessian(self, residuals: Residuals) -> Tensor:
        """Its Hessian over the flattened head, shape (CD, CD)."""
        dense = closed_form.domain_tensors(2, residuals, self.inputs, self.weights[:, None], False)[0]
        return dense + self.l2 * torch.eye(len(dense), dtype=dense.dtype)

    def solve(self, residuals: Residuals, right: Tensor, tolerance: float = 1e-12) -> Tensor:
        """Solve Hessian · x = right for each of the matrices `right` (m, C, D)."""
        if right[0].numel() <= DENSE:
            factor = torch.linalg.cholesky(self.hessian(residuals))
            return torch.cholesky_solve(right.flatten(1).T, factor).T.reshape(right.shape)
        diagonal = (residuals.hessian_diagonal() * self.weights[:, None]).T @ self.inputs.square() + self.l2
        return torch.stack([self._conjugate_gradients(residuals, b, diagonal, tolerance) for b in right])

    def _conjugate_gradients(self, residuals: Residuals, right: Tensor, diagonal: Tensor, tolerance: float) -> Tensor:
        x, r = torch.zeros_like(right), right.clone()
        z = r / diagonal
        p, rho = z, (r * z).sum()
        goal = tolerance * right.norm()
        for _ in range(10 * right.numel()):
            if r.norm() <= goal:
                break
            product = self.hessian_times(residuals, p)
            step = rho / (p * product).sum()
            x, r = x + step * p, r - step * product
            z = r / diagonal
            before, rho = rho, (r * z).sum()
            p = z + rho / before * p
        return x


def minimizer(function: WeightedLoss, start: Tensor) -> Tensor:
    """Head at which a strongly convex function is smallest, to rounding.

    Args:
        function: Its weights are not negative and its l2 is above zero.
        start: Where to begin, shape (C, D).

    Returns:
        The head.
    """
    head, value = start, function.value(start)
    for _ in range(_ITERATIONS):
        residuals = function.residuals(head)
        gradient = function.gradient(head, residuals)
        # The squared Newton decrement is twice what is left to gain. An inexact direction is as good far from the end.
        direction = function.solve(residuals, -gradient[None], tolerance=1e-6)[0]
        decrement = -float((gradient * direction).sum())
        scale = 1e-16 * (1 + abs(value))
        if decrement <= 1e-8 * scale:
            return head + direction
        if decrement <= 100 * scale:
            # Differences of values are rounding here, and full steps converge.
            head = head + direction
            continue
        step = 1.0
        while (found := function.value(head + step * direction)) > value - 1e-4 * step * decrement + scale:
            step /= 2
            if step < _SMALLEST_STEP:
                return head
        head, value = head + step * direction, found
    warnings.warn(
        f"The head did not converge in {_ITERATIONS} Newton steps. Standardise the features or raise l2.",
        ConvergenceWarning,
        stacklevel=2,
    )
    return head


def mixture_minimizer(losses: DomainLosses, mixture: Tensor, start: Tensor | None = None) -> Tensor:
    """Head θ(w) at which Σ_e w_e L_e is smallest, for weights w (K,) that are not negative."""
    begin = torch.zeros(losses.shape, dtype=torch.float64) if start is None else start
    return minimizer(WeightedLoss.mixture(losses, mixture), begin)


def domain_minimizers(losses: DomainLosses) -> list[Tensor]:
    """The minimizing head of each domain's loss."""
    return [mixture_minimizer(losses, row) for row in torch.eye(len(losses), dtype=torch.float64)]


def smallest_loss(losses: DomainLosses, mixture: Floats) -> float:
    """Smallest value of Σ_e w_e L_e over all heads, for weights w (K,) that are not negative."""
    head = mixture_minimizer(losses, torch.from_numpy(mixture))
    return float(mixture @ losses.values(head))
