"""Invariant risk minimisation."""

from typing import ClassVar, Unpack

import torch
from torch import Tensor

from momentalign import closed_form
from momentalign._batch import HeadBatch
from momentalign._validation import check_choice
from momentalign.closed_form import HEADS, HeadRows
from momentalign.penalties._base import PenaltyOptions
from momentalign.penalties._vectors import VectorPenalty


class IRM(VectorPenalty):
    r"""Invariant risk minimisation: the head should be optimal in every domain, so its gradients should vanish.

    `version="head"`: :math:`\frac1K \sum_e \|\nabla L_e\|^2` over the whole head. `version="scale"`: the gradient of
    :math:`L_e(s \cdot \mathrm{logits})` at s = 1 is :math:`\frac1{n_e}\sum_i (p_i - y_i)\cdot \mathrm{logits}_i`; its
    value on the even rows of a domain times its value on the odd rows estimates its square without bias, averaged
    over domains. The product can be negative, depends on the order of the rows, and is 0 for a domain of one row.
    Not a difference between domains: one domain has a penalty as well. Term: `gradient_norm`.

    Args:
        weight: Weight of the penalty after annealing; 1 before.
        version: `"head"` or `"scale"`, which `bias` has no effect on.
        **options: Arguments of :class:`DomainPenalty`.

    Example:
        >>> features = torch.tensor([[1.0], [2.0]])
        >>> logits, targets, domains = torch.zeros(2, 2), torch.tensor([0, 0]), torch.tensor([0, 1])
        >>> IRM(bias=False)(features, logits, targets, domains)
        tensor(1.2500)
    """

    term_labels: ClassVar = {"gradient_norm": "IRM: gradient norms"}
    initial_weight = 1.0
    capturable = True
    compares_domains = False

    def __init__(self, weight: float = 1.0, *, version: str = "head", **options: Unpack[PenaltyOptions]) -> None:
        super().__init__({"gradient_norm": weight}, **options)
        self.version = check_choice("version", version, ("head", "scale"))

    def compute_terms(self, batch: HeadBatch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        """Norms of the domains' gradients, or products of the halves' derivatives by the scale."""
        if self.version == "head":
            return super().compute_terms(batch, names, update=update)
        residuals = HEADS[self.loss](batch.logits, batch.targets).gradient
        return {"gradient_norm": _product_of_halves((residuals * batch.logits).sum(1), batch.domains)}

    def vectors(self, rows: HeadRows) -> dict[str, Tensor]:
        """Gradients, which should vanish; version `"head"` only."""
        if self.version != "head":
            raise NotImplementedError(f"{self} has no vectors.")
        return {"gradient_norm": closed_form.gradients(rows)}

    def by_grams(self, rows: HeadRows) -> dict[str, Tensor]:
        """Norms of the gradients without forming them."""
        return {"gradient_norm": rows.gram_square(rows.residuals.gradient, rows.X, rows.E)}


def _product_of_halves(values: Tensor, domains: Tensor) -> Tensor:
    """Mean over domains of (mean of `values` on a domain's even rows) x (mean on its odd rows)."""
    together = closed_form.same(domains, domains, values.dtype)
    odd = (together.tril(-1).sum(1) % 2)[:, None]  # rows of its domain before it
    halves = torch.cat([1 - odd, odd], 1)
    means = together @ (halves * values[:, None]) / (together @ halves).clamp(min=1)
    return closed_form.mean_over_domains(means[:, 0] * means[:, 1], domains)
