"""Risk extrapolation: variance of the domains' losses."""

from typing import ClassVar, Unpack

import torch
from torch import Tensor, nn

from momentalign import closed_form
from momentalign._batch import HeadBatch
from momentalign.penalties._base import DomainPenalty, PenaltyOptions
from momentalign.penalties._domain_vectors import DomainRows, DomainVectors


class VREx(DomainPenalty):
    r"""Variance of the domains' losses, :math:`\frac1K \sum_e (L_e - \bar L)^2`: alignment of order zero.

    Reaches the logits only; `bias` has no effect. Term: `loss_variance`.

    Args:
        weight: Weight of the penalty after annealing; 1 before.
        **options: Arguments of :class:`DomainPenalty`.

    Example:
        >>> logits, targets, domains = torch.tensor([[0.0], [0.0]]), torch.tensor([1.0, 3.0]), torch.tensor([0, 1])
        >>> VREx(loss="squared_error")(torch.zeros(2, 1), logits, targets, domains)
        tensor(4.)
    """

    term_labels: ClassVar = {"loss_variance": "VREx: variance of losses"}
    initial_weight = 1.0
    capturable = True

    def __init__(self, weight: float = 1.0, **options: Unpack[PenaltyOptions]) -> None:
        super().__init__({"loss_variance": weight}, **options)

    def compute_terms(self, batch: HeadBatch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        """Variance of the domains' losses."""
        own, _, _, share = closed_form.averages(batch.domains, batch.logits.dtype)
        deviations = torch.mv(own - share, self._losses(batch))  # of each sample's domain from the mean of the domains
        return {"loss_variance": torch.dot(share, deviations.square())}

    def domain_vectors(self, domains: list[DomainRows]) -> dict[str, DomainVectors]:
        """Mean losses of the domains."""
        return {"loss_variance": DomainVectors(torch.stack([rows.mean_loss() for rows in domains]))}

    def _losses(self, batch: HeadBatch) -> Tensor:
        """Loss of each sample, shape (n,)."""
        logits, targets = batch.logits, batch.targets
        if self.loss == "cross_entropy":
            return nn.functional.cross_entropy(logits, targets.long(), reduction="none")
        targets = targets.to(logits.dtype).reshape(logits.shape)
        if self.loss == "logistic":
            return nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")[:, 0]
        return (logits - targets).square().sum(1) / 2
