"""Hessian-gradient products."""

from typing import ClassVar, Unpack

import torch
from torch import Tensor

from momentalign import closed_form
from momentalign._batch import HeadBatch
from momentalign._validation import check_choice
from momentalign.closed_form import HEADS
from momentalign.penalties._base import DomainPenalty, PenaltyOptions
from momentalign.penalties._domain_vectors import DomainRows, DomainVectors, stack_gradients


class HGP(DomainPenalty):
    r"""Matches gradients and Hessian-gradient products of a linear head across domains.

    With :math:`g_e = \nabla L_e` and :math:`v_e = H_e g_e` the penalty is
    :math:`\frac1K\sum_e \alpha\|g_e - \bar g\|^2 + \beta\|v_e - \bar v\|^2`; no gradient is back-propagated through.
    `center="mean"` compares with the mean of the :math:`v_e`, as it is written; `center="product"` with
    :math:`\bar H \bar g`, detached, as the released code does (which calls the Hessian's weight alpha), and as it was
    run for the published tables. Terms: `gradient`, `hessian`.

    Args:
        gradient_weight: Weight of the gradients' spread.
        hessian_weight: Weight of the products' distance from the center.
        center: `"mean"` or `"product"`.
        **options: Arguments of :class:`DomainPenalty`.

    Example:
        >>> features = torch.tensor([[1.0], [2.0]])
        >>> logits, targets, domains = torch.zeros(2, 2), torch.tensor([0, 0]), torch.tensor([0, 1])
        >>> HGP(bias=False).terms(features, logits, targets, domains)
        {'gradient': tensor(0.1250), 'hessian': tensor(1.5312)}
    """

    term_labels: ClassVar = {"gradient": "gradient spread", "hessian": "Hessian spread"}
    capturable = True

    def __init__(
        self,
        gradient_weight: float = 1.0,
        hessian_weight: float = 1.0,
        *,
        center: str = "mean",
        **options: Unpack[PenaltyOptions],
    ) -> None:
        super().__init__({"gradient": gradient_weight, "hessian": hessian_weight}, **options)
        self.center = check_choice("center", center, ("mean", "product"))

    def compute_terms(self, batch: HeadBatch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        """Spreads of gradients and products."""
        gradient, hessian = closed_form.product_spreads(HEADS[self.loss], *batch, bias=self.bias, center=self.center)
        return {"gradient": gradient, "hessian": hessian}

    def domain_vectors(self, domains: list[DomainRows]) -> dict[str, DomainVectors]:
        """Gradients and Hessian-gradient products; or distances from a detached center, which only SGD can use."""
        gradients = stack_gradients(domains)
        products = torch.stack([rows.hessian_times(G) for rows, G in zip(domains, gradients, strict=True)])
        if self.center == "product":
            mean = gradients.mean(0).detach()
            center = torch.stack([rows.hessian_times(mean) for rows in domains]).mean(0).detach()
            return {"gradient": DomainVectors(gradients), "hessian": DomainVectors(products - center, centred=False)}
        return {"gradient": DomainVectors(gradients), "hessian": DomainVectors(products)}
