"""Correlation alignment: means and covariances of the features."""

from typing import ClassVar, Unpack

from torch import Tensor

from momentalign import closed_form
from momentalign._batch import HeadBatch
from momentalign.penalties._base import DomainPenalty, PenaltyOptions


class CORAL(DomainPenalty):
    r"""Matches the features' means and covariances across domains.

    Over pairs of domains, averaged: the mean over coordinates of :math:`(\mu_a - \mu_b)^2` plus the mean over the d²
    entries of :math:`(S_a - S_b)^2`, covariances with n − 1. Computed from the n x n Gram matrix of the centred
    features, no d x d matrix is formed. A domain of one row has covariance zero. Reaches the features only: on frozen
    features it has no gradient, and `loss` and `bias` have no effect. Terms: `mean`, `covariance`.

    Args:
        weight: Weight of the penalty.
        **options: Arguments of :class:`DomainPenalty`.

    Example:
        >>> import torch
        >>> features, domains = torch.tensor([[0.0], [2.0], [1.0], [3.0]]), torch.tensor([0, 0, 1, 1])
        >>> CORAL().terms(features, torch.zeros(4, 2), torch.zeros(4, dtype=torch.long), domains)
        {'mean': tensor(1.), 'covariance': tensor(0.)}
    """

    term_labels: ClassVar = {"mean": "CORAL: distance of feature means", "covariance": "CORAL: distance of covariances"}
    capturable = True
    features_only = True

    def __init__(self, weight: float = 1.0, **options: Unpack[PenaltyOptions]) -> None:
        super().__init__({"mean": weight, "covariance": weight}, **options)

    def compute_terms(self, batch: HeadBatch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        """Distances of means and covariances."""
        mean, covariance = closed_form.coral_distances(batch.features, batch.domains)
        return {"mean": mean, "covariance": covariance}
