"""Risk extrapolation: variance of the domains' losses."""

from typing import ClassVar, Unpack

from torch import Tensor

from momentalign.closed_form import HeadRows
from momentalign.penalties._base import PenaltyOptions
from momentalign.penalties._vectors import VectorPenalty


class VREx(VectorPenalty):
    r"""Variance of the domains' losses, :math:`\frac1K \sum_e (L_e - \bar L)^2`: alignment of order zero.

    Reaches the logits only; `bias` has no effect. Term: `loss_variance`.

    Args:
        weight: Weight of the penalty after annealing; 1 before.
        **options: Arguments of :class:`DomainPenalty`.

    Example:
        >>> import torch
        >>> logits, targets, domains = torch.tensor([[0.0], [0.0]]), torch.tensor([1.0, 3.0]), torch.tensor([0, 1])
        >>> VREx(loss="squared_error")(torch.zeros(2, 1), logits, targets, domains)
        tensor(4.)
    """

    term_labels: ClassVar = {"loss_variance": "VREx: variance of losses"}
    initial_weight = 1.0
    capturable = True

    def __init__(self, weight: float = 1.0, **options: Unpack[PenaltyOptions]) -> None:
        super().__init__({"loss_variance": weight}, **options)

    def vectors(self, rows: HeadRows) -> dict[str, Tensor]:
        """Distances of the domains' mean losses from their mean."""
        return {"loss_variance": rows.centred((rows.residuals.losses @ rows.E)[:, None])}
