"""Hessian-gradient products."""

from typing import ClassVar, Unpack

import torch
from torch import Tensor

from momentalign import closed_form
from momentalign._validation import check_choice
from momentalign.closed_form import HeadRows
from momentalign.penalties._base import PenaltyOptions
from momentalign.penalties._vectors import VectorPenalty


class HGP(VectorPenalty):
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

    def vectors(self, rows: HeadRows) -> dict[str, Tensor]:
        """Distances of the gradients from their mean, and of the products from the center."""
        gradients = closed_form.gradients(rows)
        products, centred = closed_form.hessian_times(rows, gradients), rows.centred(gradients)
        if self.center == "mean":
            return {"gradient": centred, "hessian": rows.centred(products)}
        with torch.no_grad():
            mean = (gradients - centred).expand_as(gradients)
            center = torch.tensordot(rows.q, closed_form.hessian_times(rows, mean), 1)
        return {"gradient": centred, "hessian": products - center}

    def by_grams(self, rows: HeadRows) -> dict[str, Tensor]:
        """The same from inner products of the rows."""
        X, R, times = rows.X, rows.residuals.gradient, rows.residuals.hessian_times
        share = (rows.E @ rows.q)[:, None]
        inner = X @ X.T
        products = times((inner * ((rows.E > 0).to(X.dtype) @ rows.E.T)) @ R)
        gradient = rows.gram_square(R, X, rows.E - share)
        if self.center == "mean":
            return {"gradient": gradient, "hessian": rows.gram_square(products, X, rows.E - share)}
        pooled = times(inner @ (share * R)).detach()
        both = torch.cat([products, pooled]), torch.cat([X, X.detach()])
        return {
            "gradient": gradient,
            "hessian": rows.gram_square(*both, torch.cat([rows.E, -share.detach().expand_as(rows.E)])),
        }
