"""Hessian-gradient products."""

from torch import Tensor

from momentalign import closed_form
from momentalign._validation import Batch, check_choice
from momentalign.closed_form import HEADS
from momentalign.penalties._base import DomainPenalty


class HGP(DomainPenalty):
    r"""Matches gradients and Hessian-gradient products of a linear head across domains.

    With :math:`g_e = \nabla L_e` and :math:`v_e = H_e g_e` the penalty is
    :math:`\frac1K\sum_e \alpha\|g_e - \bar g\|^2 + \beta\|v_e - \bar v\|^2`; no gradient is back-propagated through.
    `center="mean"` compares with the mean of the :math:`v_e`, as published; `center="product"` with
    :math:`\bar H \bar g`, detached, as the released code does (which calls the Hessian's weight alpha). Terms:
    `gradient`, `hessian`.

    Args:
        gradient_weight: Weight of the gradients' spread.
        hessian_weight: Weight of the products' distance from the center.
        center: `"mean"` or `"product"`.
        anneal_steps: Training calls before the weights take effect; make the optimizer's state new at that step.
        bias: Whether the head has a bias.
        loss: `"cross_entropy"`, `"logistic"` or `"squared_error"`.
        num_domains: Domains are 0 … num_domains − 1; then their range is checked.
        gather: Under `torch.distributed`, gather the batches of all ranks, differentiably.
        validate: Check values. None checks on CPU only; never while compiling or capturing.

    Example:
        >>> import torch
        >>> features = torch.tensor([[1.0], [2.0]])
        >>> logits, targets, domains = torch.zeros(2, 2), torch.tensor([0, 0]), torch.tensor([0, 1])
        >>> HGP(bias=False).terms(features, logits, targets, domains)
        {'gradient': tensor(0.1250), 'hessian': tensor(1.5312)}
    """

    def __init__(
        self,
        gradient_weight: float = 1.0,
        hessian_weight: float = 1.0,
        *,
        center: str = "mean",
        anneal_steps: int = 0,
        bias: bool = True,
        loss: str = "cross_entropy",
        num_domains: int | None = None,
        gather: bool = True,
        validate: bool | None = None,
    ) -> None:
        super().__init__(
            {"gradient": gradient_weight, "hessian": hessian_weight},
            anneal_steps=anneal_steps,
            loss=loss,
            bias=bias,
            num_domains=num_domains,
            gather=gather,
            validate=validate,
        )
        self.center = check_choice("center", center, ("mean", "product"))

    def _terms(self, batch: Batch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        # X (n, d) features, R (n, C) residuals, u (n,) shares of the domains' means, K domains
        X, domains = batch.features, batch.domains
        residuals = HEADS[self.loss](batch.logits, batch.targets)
        R = residuals.gradient
        inner = X @ X.T + int(self.bias)
        u = closed_form.shares(domains, R.dtype)
        together = closed_form.same(domains, domains, R.dtype)
        own = residuals.hessian_times((inner * together * u) @ R)  # A_i g_e x_i: v_e = Σ_i u_i own_i x_iᵀ
        products = (own @ own.T) * inner
        if self.center == "mean":
            hessian = closed_form.gram_spread(products, domains)
        else:
            share = u / closed_form.number_of_domains(u)
            pooled = residuals.hessian_times((inner * share) @ R).detach()  # A_i ḡ x_i: v̄ = Σ_i share_i pooled_i x_iᵀ
            with_center = (own @ pooled.T) * (X @ X.detach().T + int(self.bias))
            center = (pooled @ pooled.T) * inner.detach()
            squares = u @ (products * together) @ share
            hessian = squares - 2 * share @ with_center @ share + share @ center @ share
        return {"gradient": closed_form.gram_spread((R @ R.T) * inner, domains), "hessian": hessian}
