"""Maximum mean discrepancy between the domains' features."""

import torch
from torch import Tensor

from momentalign import closed_form
from momentalign._batch import HeadBatch
from momentalign.penalties._base import DomainPenalty

_GAMMAS = (1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3)
_ROUNDING = 16


class MMD(DomainPenalty):
    r"""Maximum mean discrepancy between the domains' features, averaged over pairs of domains.

    The kernel is :math:`\sum_\gamma \exp(-\gamma \|x - x'\|^2)` with γ = 10⁻³ … 10³; the estimate is the biased one
    (a sample meets itself). Reaches the features only. Term: `discrepancy`.

    Args:
        weight: Weight of the penalty.
        anneal_steps: Training calls before the weight takes effect; make the optimizer's state new at that step.
        num_domains: Domains are 0 … num_domains − 1; then their range is checked.
        gather: Under `torch.distributed`, gather the batches of all ranks, differentiably.
        validate: Check values. None checks on CPU only; never while compiling or capturing.

    Example:
        >>> features, domains = torch.tensor([[0.0], [100.0]]), torch.tensor([0, 1])
        >>> MMD()(features, torch.zeros(2, 2), torch.tensor([0, 0]), domains)
        tensor(13.9999)
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
            {"discrepancy": weight},
            anneal_steps=anneal_steps,
            loss="cross_entropy",
            bias=True,
            num_domains=num_domains,
            gather=gather,
            validate=validate,
        )

    def _terms(self, batch: HeadBatch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        X, domains = batch.features, batch.domains
        X = X - X.mean(0).detach()  # distances stay, their rounding shrinks
        lengths = X.square().sum(1)
        together = lengths[:, None] + lengths
        squares = together - 2 * X @ X.T
        # What rounding leaves of a sample's distance to itself is not nothing to the narrowest kernels.
        squares = torch.where(squares > _ROUNDING * torch.finfo(X.dtype).eps * together, squares, 0.0)
        kernel = torch.stack([torch.exp(-gamma * squares) for gamma in _GAMMAS]).sum(0)
        pairs = closed_form.pairs_per_spread(closed_form.shares(domains, X.dtype))
        return {"discrepancy": pairs * closed_form.gram_spread(kernel, domains)}
