"""Gradients and diagonals of the Hessians."""

from typing import ClassVar, Unpack

import torch
from torch import Tensor

from momentalign import closed_form
from momentalign._validation import check_choice, check_count
from momentalign.closed_form import HeadRows
from momentalign.penalties._base import PenaltyOptions
from momentalign.penalties._moment_alignment import constant_divisor
from momentalign.penalties._vectors import VectorPenalty

CONSTANT_SCALINGS = ("none", "classes", "parameters")
"""Units of the weights whose divisor does not depend on the batch."""


class Hutchinson(VectorPenalty):
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

    def vectors(self, rows: HeadRows) -> dict[str, Tensor]:
        """Distances of the gradients and of the diagonals from their means, in the units of the scaling."""
        gradients = closed_form.gradients(rows)
        if self.samples is None:
            diagonals = closed_form.hessian_diagonals(rows)
        else:
            diagonals = torch.zeros_like(gradients)
            for _ in range(self.samples):
                z = (torch.randint(0, 2, gradients.shape[1:], device=gradients.device) * 2 - 1).to(gradients.dtype)
                diagonals = diagonals + z * closed_form.hessian_times(rows, z.expand_as(gradients)) / self.samples
        first, second = self._divisors(*gradients.shape[1:])
        return {
            "gradient": rows.centred(gradients) / first**0.5,
            "hessian": rows.centred(diagonals) / second**0.5,
        }

    def by_grams(self, rows: HeadRows) -> dict[str, Tensor]:
        """The same from inner products of the rows; without samples only."""
        if self.samples is not None:
            return {}
        R, E, diagonal = rows.residuals.gradient, rows.E - (rows.E @ rows.q)[:, None], rows.residuals.hessian_diagonal()
        first, second = self._divisors(R.shape[1], rows.X.shape[1])
        return {
            "gradient": rows.gram_square(R, rows.X, E) / first,
            "hessian": rows.gram_square(diagonal, rows.X.square(), E) / second,
        }

    def _divisors(self, classes: int, dimension: int) -> tuple[float, float]:
        """Divisors of the two terms."""
        if self.scaling == "none":
            return 1.0, 1.0
        first, second = (constant_divisor(self.scaling, order, classes, dimension) for order in (1, 2))
        return first, second
