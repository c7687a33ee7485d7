"""Variances of the per-sample gradients."""

from typing import ClassVar, Unpack

import torch
from torch import Tensor

from momentalign import closed_form
from momentalign._batch import HeadBatch
from momentalign._validation import check_decay
from momentalign.closed_form import HEADS
from momentalign.penalties._base import DomainPenalty, PenaltyOptions
from momentalign.penalties._domain_vectors import DomainRows, DomainVectors, stack_gradients
from momentalign.penalties._memory import DecayedSums


class Fishr(DomainPenalty):
    r"""Matches the variances of the samples' gradients of a linear head across domains.

    :math:`v_e = \mathbb E_e[(p-y)^2 \otimes x^2] - (\mathbb E_e[(p-y) \otimes x])^2` elementwise, averaged over steps
    by :math:`s \leftarrow \gamma s + (1-\gamma) v`, the past detached; the value compared is :math:`s/(1-\gamma)`, and
    the penalty the mean over domains and coordinates of :math:`(s_e - \bar s)^2/(1-\gamma)^2`. The average runs from
    the first call, also while annealing, and is a buffer. Term: `gradient_variance`.

    Args:
        weight: Weight of the penalty, the published λ.
        momentum: Decay γ of the moving average; 0 for the current batch alone.
        **options: Arguments of :class:`DomainPenalty`.

    Example:
        >>> features, domains = torch.tensor([[0.0], [2.0], [0.0], [4.0]]), torch.tensor([0, 0, 1, 1])
        >>> Fishr(bias=False, loss="logistic")(features, torch.zeros(4, 1), torch.zeros(4), domains)
        tensor(0.1406)
    """

    term_labels: ClassVar = {"gradient_variance": "Fishr: spread of gradient variances"}
    capturable = True

    def __init__(self, weight: float = 1.0, *, momentum: float = 0.95, **options: Unpack[PenaltyOptions]) -> None:
        super().__init__({"gradient_variance": weight}, **options)
        self.momentum = check_decay("momentum", momentum)
        self.sums = DecayedSums(["variance"], self.num_domains, self.momentum)

    def compute_terms(self, batch: HeadBatch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        """Spread of the averaged variances."""
        residuals = HEADS[self.loss](batch.logits, batch.targets).gradient
        size = batch.logits.shape[1] * (batch.features.shape[1] + self.bias)
        self.sums.check_widths(batch, {"variance": size}, update=update)
        labels = self.sums.extended_labels(batch.domains)
        past = self.sums.past(labels, residuals.dtype).get("variance")
        value, sums = closed_form.variance_spread(
            residuals, batch.features, batch.domains, labels, past, self.sums.decay, bias=self.bias
        )
        if update:
            self.sums.remember({"variance": sums}, labels)
        return {"gradient_variance": value}

    def domain_vectors(self, domains: list[DomainRows]) -> dict[str, DomainVectors]:
        """Variances of the samples' gradients, without the moving average."""
        second = torch.stack([rows.mean_outer(rows.R.square(), rows.X.square()) for rows in domains])
        variances = second - stack_gradients(domains).square()
        return {"gradient_variance": DomainVectors(variances, divisor=float(variances[0].numel()))}
