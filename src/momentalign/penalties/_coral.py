"""Correlation alignment: means and covariances of the features."""

from torch import Tensor

from momentalign import closed_form
from momentalign._batch import HeadBatch
from momentalign.penalties._base import DomainPenalty


class CORAL(DomainPenalty):
    r"""Matches the features' means and covariances across domains.

    Over pairs of domains, averaged: the mean over coordinates of :math:`(\mu_a - \mu_b)^2` plus the mean over the d²
    entries of :math:`(S_a - S_b)^2`, covariances with n − 1. Computed from the n x n Gram matrix of the centred
    features, no d x d matrix is formed. A domain of one row counts with covariance zero. Reaches the features only:
    on frozen features it has no gradient. Terms: `mean`, `covariance`.

    Args:
        weight: Weight of the penalty.
        anneal_steps: Training calls before the weight takes effect; make the optimizer's state new at that step.
        num_domains: Domains are 0 … num_domains − 1; then their range is checked.
        gather: Under `torch.distributed`, gather the batches of all ranks, differentiably.
        validate: Check values. None checks on CPU only; never while compiling or capturing.

    Example:
        >>> import torch
        >>> features, domains = torch.tensor([[0.0], [2.0], [1.0], [3.0]]), torch.tensor([0, 0, 1, 1])
        >>> CORAL().terms(features, torch.zeros(4, 2), torch.zeros(4, dtype=torch.long), domains)
        {'mean': tensor(1.), 'covariance': tensor(0.)}
    """

    features_only = True

    def __init__(
        self,
        weight: float = 1.0,
        *,
        anneal_steps: int = 0,
        num_domains: int | None = None,
        gather: bool = True,
        validate: bool | None = None,
    ) -> None:
        super().__init__(
            {"mean": weight, "covariance": weight},
            anneal_steps=anneal_steps,
            loss="cross_entropy",
            bias=True,
            num_domains=num_domains,
            gather=gather,
            validate=validate,
        )

    def _terms(self, batch: HeadBatch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        mean, covariance = closed_form.moment_distances(batch.features, batch.domains)
        return {"mean": mean, "covariance": covariance}
