"""Minimizing heads of weighted losses: Newton's method, with a factorised Hessian or by conjugate gradients."""

import warnings
from dataclasses import dataclass

import torch
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from momentalign import closed_form
from momentalign._types import Array
from momentalign.closed_form import HEADS, Residuals
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
        """Σ_e a_e L_e for any signs of a (K,); rows of weight zero are dropped."""
        weights = losses.weights @ mixture
        rows = weights.nonzero()[:, 0]
        total = losses.l2 * mixture.sum().item()
        return WeightedLoss(losses.loss, losses.inputs[rows], losses.targets[rows], weights[rows], total)

    def residuals(self, head: Tensor) -> Residuals:
        """Residual tensors of the rows at a head."""
        return HEADS[self.loss](self.inputs @ head.T, self.targets)

    def value(self, head: Tensor) -> float:
        """Value at a head."""
        samples = sample_losses(self.loss, self.inputs @ head.T, self.targets)
        return float(self.weights @ samples + self.l2 / 2 * head.square().sum())

    def gradient(self, head: Tensor, residuals: Residuals) -> Tensor:
        """Gradient, shape (C, D)."""
        return (residuals.gradient * self.weights[:, None]).T @ self.inputs + self.l2 * head

    def hessian_times(self, residuals: Residuals, vector: Tensor) -> Tensor:
        """Product of the Hessian with a matrix (C, D)."""
        products = residuals.hessian_times(self.inputs @ vector.T)
        return (products * self.weights[:, None]).T @ self.inputs + self.l2 * vector

    def hessian(self, residuals: Residuals) -> Tensor:
        """Hessian over the flattened head, shape (CD, CD)."""
        dense = closed_form.domain_tensors(2, residuals, self.inputs, self.weights[:, None], False)[0]
        return dense + self.l2 * torch.eye(len(dense), dtype=dense.dtype)

    def solve(self, residuals: Residuals, right: Tensor, tolerance: float = 1e-12) -> Tensor:
        """Solve Hessian · x = right for each of the matrices `right` (m, C, D)."""
        shape, size = right.shape[1:], right[0].numel()
        if size <= DENSE:
            return _solve_dense(self.hessian(residuals), right.flatten(1).T).T.reshape(right.shape)
        diagonal = (residuals.hessian_diagonal() * self.weights[:, None]).T @ self.inputs.square() + self.l2
        scale = diagonal.flatten().numpy()

        def product(vector: Array) -> Array:
            result: Array = self.hessian_times(residuals, torch.from_numpy(vector).reshape(shape)).flatten().numpy()
            return result

        hessian = LinearOperator((size, size), product, dtype=scale.dtype)
        jacobi = LinearOperator((size, size), lambda vector: vector / scale, dtype=scale.dtype)
        solutions = [
            cg(hessian, b.flatten().numpy(), rtol=tolerance, atol=0.0, maxiter=10 * size, M=jacobi)[0] for b in right
        ]
        return torch.stack([torch.from_numpy(x).reshape(shape) for x in solutions])


def _solve_dense(hessian: Tensor, right: Tensor) -> Tensor:
    """Solve a positive definite system for the columns of `right`; columns of other units are scaled if need be."""
    factor, failed = torch.linalg.cholesky_ex(hessian)
    if not failed:
        return torch.cholesky_solve(right, factor)
    unit = hessian.diagonal().rsqrt()
    factor, failed = torch.linalg.cholesky_ex(unit[:, None] * hessian * unit)
    if failed:
        raise ValueError(
            "The features should be standardised, but are of such different sizes, or so far from zero, that a head "
            "cannot be fitted to rounding. Subtract each column's mean and divide by its standard deviation, e.g. by "
            "sklearn.preprocessing.StandardScaler, or raise 'l2'."
        )
    return unit[:, None] * torch.cholesky_solve(unit[:, None] * right, factor)


def minimizer(function: WeightedLoss, start: Tensor) -> Tensor:
    """Minimizing head of a strongly convex function (non-negative weights, positive l2), to rounding."""
    head, value = start, function.value(start)
    for _ in range(_ITERATIONS):
        residuals = function.residuals(head)
        gradient = function.gradient(head, residuals)
        # The squared Newton decrement is twice what is left to gain. Far from the minimum an inexact direction will do.
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
        while (trial := function.value(head + step * direction)) > value - 1e-4 * step * decrement + scale:
            step /= 2
            if step < _SMALLEST_STEP:
                return head
        head, value = head + step * direction, trial
    warnings.warn(
        f"The head did not converge in {_ITERATIONS} Newton steps. Standardise the features or raise l2.",
        ConvergenceWarning,
        stacklevel=2,
    )
    return head


def mixture_minimizer(losses: DomainLosses, mixture: Tensor, start: Tensor | None = None) -> Tensor:
    """Head θ(w) that minimizes Σ_e w_e L_e, for non-negative weights w (K,)."""
    begin = torch.zeros(losses.shape, dtype=torch.float64) if start is None else start
    return minimizer(WeightedLoss.mixture(losses, mixture), begin)


def domain_minimizers(losses: DomainLosses) -> list[Tensor]:
    """Minimizing head of each domain's loss."""
    return [mixture_minimizer(losses, row) for row in torch.eye(len(losses), dtype=torch.float64)]


def smallest_loss(losses: DomainLosses, mixture: Array) -> float:
    """Smallest value of Σ_e w_e L_e over all heads, for non-negative weights w (K,)."""
    head = mixture_minimizer(losses, torch.from_numpy(mixture))
    return float(mixture @ losses.values(head))
