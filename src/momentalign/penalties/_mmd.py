"""Maximum mean discrepancy between the domains' features."""

from typing import ClassVar, Unpack

import torch
from torch import Tensor

from momentalign import closed_form
from momentalign._batch import HeadBatch
from momentalign.penalties._base import DomainPenalty, PenaltyOptions

_GAMMAS = (1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3)
_ROUNDING = 16


class MMD(DomainPenalty):
    r"""Maximum mean discrepancy between the domains' features, averaged over pairs of domains.

    The kernel is :math:`\sum_\gamma \exp(-\gamma \|x - x'\|^2)` with γ = 10⁻³ … 10³; the estimate is the biased one
    (a sample is compared with itself). Reaches the features only; `loss` and `bias` have no effect. Term:
    `discrepancy`.

    Args:
        weight: Weight of the penalty.
        **options: Arguments of :class:`DomainPenalty`.

    Example:
        >>> features, domains = torch.tensor([[0.0], [100.0]]), torch.tensor([0, 1])
        >>> MMD()(features, torch.zeros(2, 2), torch.tensor([0, 0]), domains)
        tensor(13.9999)
    """

    term_labels: ClassVar = {"discrepancy": "MMD: discrepancy"}
    capturable = True
    features_only = True

    def __init__(self, weight: float = 1.0, **options: Unpack[PenaltyOptions]) -> None:
        super().__init__({"discrepancy": weight}, **options)

    def compute_terms(self, batch: HeadBatch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        """Mean discrepancy over pairs of domains."""
        X, domains = batch.features, batch.domains
        scale = closed_form.unit_scale(X)
        X, unit = X * scale, scale.reciprocal()
        X = X - X.mean(0).detach()  # distances stay, their rounding shrinks
        lengths = X.square().sum(1)
        together = lengths[:, None] + lengths
        squares = together - 2 * X @ X.T
        # The narrowest kernels would see what rounding leaves of a sample's distance to itself.
        squares = torch.where(squares <= _ROUNDING * torch.finfo(X.dtype).eps * together, 0.0, squares)
        squares = squares * unit * unit  # in two steps: the unit's square may overflow where the distance is zero
        kernel = torch.exp(-_GAMMAS[0] * squares)
        for gamma in _GAMMAS[1:]:
            kernel = kernel + torch.exp(-gamma * squares)
        pairs = closed_form.pairs_per_spread(closed_form.shares(domains, X.dtype))
        return {"discrepancy": pairs * closed_form.gram_spread(kernel, domains)}
