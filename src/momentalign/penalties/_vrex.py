"""Risk extrapolation: variance of the domains' losses."""

import torch
from torch import Tensor, nn

from momentalign import closed_form
from momentalign._batch import HeadBatch
from momentalign.penalties._base import DomainPenalty
from momentalign.penalties._domain_vectors import DomainRows, DomainVectors


class VREx(DomainPenalty):
    r"""Variance of the domains' losses, :math:`\frac1K \sum_e (L_e - \bar L)^2`: alignment of order zero.

    Reaches the logits only. Term: `loss_variance`.

    Args:
        weight: Weight of the penalty once annealing is over; 1 before.
        anneal_steps: Training calls before the weight takes effect; make the optimizer's state new at that step.
        loss: `"cross_entropy"`, `"logistic"` or `"squared_error"`.
        num_domains: Domains are 0 … num_domains − 1; then their range is checked.
        gather: Under `torch.distributed`, gather the batches of all ranks, differentiably.
        validate: Check values. None checks on CPU only; never while compiling or capturing.

    Example:
        >>> logits, targets, domains = torch.tensor([[0.0], [0.0]]), torch.tensor([1.0, 3.0]), torch.tensor([0, 1])
        >>> VREx(loss="squared_error")(torch.zeros(2, 1), logits, targets, domains)
        tensor(4.)
    """

    def __init__(
        self,
        weight: float = 1.0,
        *,
        anneal_steps: int = 0,
        loss: str = "cross_entropy",
        num_domains: int | None = None,
        gather: bool = True,
        validate: bool | None = None,
    ) -> None:
        super().__init__(
            {"loss_variance": weight},
            anneal_steps=anneal_steps,
            initial_weight=1.0,
            loss=loss,
            bias=True,
            num_domains=num_domains,
            gather=gather,
            validate=validate,
        )

    def _terms(self, batch: HeadBatch, names: list[str], *, update: bool) -> dict[str, Tensor]:
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
