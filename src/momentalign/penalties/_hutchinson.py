"""Gradients and diagonals of the Hessians."""

from typing import ClassVar, Unpack

import torch
from torch import Tensor

from momentalign import closed_form
from momentalign._batch import HeadBatch
from momentalign._validation import check_choice, check_count
from momentalign.closed_form import HEADS, Residuals
from momentalign.penalties._base import DomainPenalty, PenaltyOptions
from momentalign.penalties._domain_vectors import DomainRows, DomainVectors, stack_gradients
from momentalign.penalties._moment_alignment import constant_divisor

CONSTANT_SCALINGS = ("none", "classes", "parameters")
"""Units of the weights whose divisor does not depend on the batch."""


class Hutchinson(DomainPenalty):
    r"""Matches gradients and the diagonals of the Hessians of a linear head across domains.

    The diagonal of a domain's Hessian is :math:`D_e = \mathbb E_e[p(1-p) \otimes x^2]`, exactly; the penalty is
    :math:`\frac1K\sum_e \alpha\|g_e - \bar g\|^2 + \beta\|D_e - \bar D\|^2`. Hutchinson's estimator, which gave the
    method its name, averages :math:`z \circ H_e z` over random signs z: with `samples`, drawn from torch's global
    generator, the same z for all domains; all ranks need the same seed. It is a diagonal method either way: without
    samples it is CMA as its released fine-tuning code computes it. Terms: `gradient`, `hessian`.

    Args:
        gradient_weight: Weight of the gradients' spread.
        hessian_weight: Weight of the diagonals' spread.
        samples: Number of random draws; None takes the exact diagonal, which costs less than one.
        scaling: What divides a term, as for :class:`MomentAlignment`: `"none"`, `"classes"` or `"parameters"`.
        **options: Arguments of :class:`DomainPenalty`.
    """

    term_labels: ClassVar = {"gradient": "gradient spread", "hessian": "Hessian spread"}
    capturable = True

    def __init__(
        self,
        gradient_weight: float = 1.0,
        hessian_weight: float = 1.0,
        *,
        samples: int | None = None,
        scaling: str = "none",
        **options: Unpack[PenaltyOptions],
    ) -> None:
        super().__init__({"gradient": gradient_weight, "hessian": hessian_weight}, **options)
        self.samples = None if samples is None else check_count("samples", samples, 1)
        self.scaling = check_choice("scaling", scaling, CONSTANT_SCALINGS)

    def compute_terms(self, batch: HeadBatch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        """Spreads of gradients and Hessian diagonals."""
        residuals = HEADS[self.loss](batch.logits, batch.targets)
        gradient, hessian = closed_form.diagonal_spreads(residuals, batch.features, batch.domains, self.bias)
        if self.samples is not None:
            X = closed_form.with_constant(batch.features, self.bias)
            _, weights = closed_form.index_domains(batch.domains, self.num_domains, X.dtype)
            diagonals = _sampled_diagonals(residuals, X, weights, self.samples)
            hessian = closed_form.present_spread(diagonals @ diagonals.T, weights.sum(0) > 0)
        first, second = self._divisors(batch.logits.shape[1], batch.features.shape[1] + self.bias)
        return {"gradient": gradient / first, "hessian": hessian / second}

    def domain_vectors(self, domains: list[DomainRows]) -> dict[str, DomainVectors]:
        """Gradients and exact diagonals of the Hessians; without samples only."""
        if self.samples is not None:
            return super().domain_vectors(domains)
        gradients = stack_gradients(domains)
        diagonals = torch.stack([rows.mean_outer(rows.P * (1 - rows.P), rows.X.square()) for rows in domains])
        first, second = self._divisors(*gradients.shape[1:])
        return {
            "gradient": DomainVectors(gradients, divisor=first),
            "hessian": DomainVectors(diagonals, divisor=second),
        }

    def _divisors(self, classes: int, dimension: int) -> tuple[float, float]:
        """Divisors of the two terms."""
        if self.scaling == "none":
            return 1.0, 1.0
        first, second = (constant_divisor(self.scaling, order, classes, dimension) for order in (1, 2))
        return first, second


def _sampled_diagonals(residuals: Residuals, X: Tensor, weights: Tensor, samples: int) -> Tensor:
    """Mean of z ∘ H_e z over random signs z, shape (K, Cd)."""
    (_, C), d = residuals.gradient.shape, X.shape[1]
    total = X.new_zeros(weights.shape[1], C, d)
    for _ in range(samples):
        z = torch.randint(0, 2, (C, d), device=X.device).to(X.dtype) * 2 - 1
        products = residuals.hessian_times(X @ z.T)  # (n, C): A_i z x_i
        total = total + z * torch.einsum("nk,nc,nd->kcd", weights, products, X)
    return total.flatten(1) / samples
