"""Fish: inner steps domain by domain, and a share of their sum."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from momentalign.algorithms._base import Algorithm, Backward, Batch


class Fish(Algorithm):
    r"""Inner optimizer steps, one for each domain in turn, then :math:`\theta + m(\theta_{inner} - \theta)`.

    To second order this raises the inner products of the domains' gradients, of all parameters. The inner
    optimizer's averages persist from step to step. Running averages of the network, as in batch normalisation, move
    by the same share.
    """

    def update(self, batch: Batch, optimizers: Mapping[str, Optimizer], backward: Backward) -> dict[str, Tensor]:
        """Do one step; `"loss"` is the mean of the inner steps' losses."""
        moved = [*self.network.parameters(), *(b for b in self.network.buffers() if b.is_floating_point())]
        before = [tensor.detach().clone() for tensor in moved]
        losses = []
        for domain in batch.per_domain(self.num_domains):
            _, logits = self.network(domain.inputs)
            loss = cross_entropy(logits, domain.targets)
            self.descend(loss, optimizers["network"], backward)
            losses.append(loss.detach())
        with torch.no_grad():
            for tensor, start in zip(moved, before, strict=True):
                tensor.copy_(start.lerp(tensor, self.hparams["meta_lr"]))
        return {"loss": torch.stack(losses).mean()}
