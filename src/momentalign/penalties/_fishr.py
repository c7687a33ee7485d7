"""Variances of the per-sample gradients."""

from typing import ClassVar, Unpack

from torch import Tensor

from momentalign import closed_form
from momentalign._batch import HeadBatch
from momentalign._validation import check_decay
from momentalign.closed_form import HeadRows
from momentalign.penalties._base import PenaltyOptions
from momentalign.penalties._memory import DomainMemory
from momentalign.penalties._vectors import VectorPenalty


class Fishr(VectorPenalty):
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
        >>> import torch
        >>> features, domains = torch.tensor([[0.0], [2.0], [0.0], [4.0]]), torch.tensor([0, 0, 1, 1])
        >>> Fishr(bias=False, loss="logistic")(features, torch.zeros(4, 1), torch.zeros(4), domains)
        tensor(0.1406)
    """

    term_labels: ClassVar = {"gradient_variance": "Fishr: spread of gradient variances"}
    capturable = True

    def __init__(self, weight: float = 1.0, *, momentum: float = 0.95, **options: Unpack[PenaltyOptions]) -> None:
        super().__init__({"gradient_variance": weight}, **options)
        self.momentum = check_decay("momentum", momentum)
        self.memory = DomainMemory(["variance"], self.num_domains, self.momentum)

    def compute_terms(self, batch: HeadBatch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        """Spread of the averaged variances."""
        # The domains are those of the batch and those remembered.
        labels = self.memory.index(batch.domains)
        rows = self.rows(batch, labels)
        sums = self.memory.add("variance", closed_form.variances(rows), labels, update=update)
        if update:
            self.memory.store("labels", labels)
        return {"gradient_variance": rows.mean_square(rows.centred(sums)) / sums[0].numel()}

    def vectors(self, rows: HeadRows) -> dict[str, Tensor]:
        """Distances of the variances from their mean, without the moving average."""
        variances = closed_form.variances(rows)
        return {"gradient_variance": rows.centred(variances) / variances[0].numel() ** 0.5}
