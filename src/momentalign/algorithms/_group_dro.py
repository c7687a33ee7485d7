"""Group distributionally robust optimisation: the domains with the largest losses weigh most."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import cross_entropy

from momentalign.algorithms._base import Algorithm, Backward, Batch, Network, Optimizers


class GroupDRO(Algorithm):
    r"""Minimises :math:`\sum_e q_e L_e` with weights that grow as :math:`q_e \propto q_e \exp(\eta L_e)`.

    The weights start equal, are updated before they are used, and are kept as logarithms, so that no domain's
    weight underflows for good. Over several ranks the domains' losses are those of all rows.
    """

    term_labels: ClassVar = {"largest_weight": "GroupDRO: largest weight"}
    capturable = True
    distributed = True
    log_weights: Tensor

    def __init__(self, network: Network, num_domains: int, hparams: Mapping[str, Any]) -> None:
        super().__init__(network, num_domains, hparams)
        self.register_buffer("log_weights", torch.zeros(num_domains).log_softmax(0))

    def update(self, batch: Batch, optimizers: Optimizers, backward: Backward) -> dict[str, Tensor]:
        """Do one step; logs `"cross_entropy"` of the batch and `"largest_weight"` of a domain."""
        _, logits = self.network(batch.inputs)
        losses = cross_entropy(logits, batch.targets, reduction="none")
        member = (batch.domains[:, None] == torch.arange(self.num_domains, device=losses.device)).to(losses.dtype)
        sums = torch.stack([losses.detach() @ member, member.sum(0)])
        ranks = 1
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(sums)
            ranks = dist.get_world_size()
        counts = sums[1].clamp(min=1)
        means = sums[0] / counts
        self.log_weights.add_(self.hparams["eta"] * means)
        self.log_weights.sub_(self.log_weights.logsumexp(0))
        weights = self.log_weights.exp().to(losses.dtype)
        # A rank's rows are a part of each domain's mean; gradients are averaged over ranks, so theirs add up.
        loss = ranks * losses @ (member @ (weights / counts))
        more = {"cross_entropy": losses.mean(), "largest_weight": weights.max()}
        return self.descend(loss, optimizers["network"], backward, **more) | {"loss": weights @ means}
