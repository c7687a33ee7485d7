"""Fish: steps domain by domain, of which a part is taken."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from momentalign.algorithms._base import Algorithm, Backward
from momentalign.algorithms._batch import Batch
from momentalign.algorithms._search import Hyperparameter, SearchSpace, one_of


class Fish(Algorithm):
    r"""Inner optimizer steps, one for each domain in turn, then :math:`\theta + m(\theta_{inner} - \theta)`.

    To second order this raises the inner products of the domains' gradients, of all parameters. The inner
    optimizer's averages go on from step to step. Running averages of the network, as batch normalisation keeps
    them, move by the same share.

    Args:
        network: What is trained.
        num_domains: Number of training domains.
        hparams: The shared hyper-parameters and `meta_lr`, the share m.
    """

    @classmethod
    def search_space(cls, recipe: str, steps: int) -> SearchSpace:
        """Hyper-parameters of Fish.

        Args:
            recipe: Of no effect.
            steps: Of no effect.

        Returns:
            `meta_lr`, the share of the inner steps that is taken.
        """
        return {"meta_lr": Hyperparameter(0.5, one_of(0.05, 0.1, 0.5), low=0)}

    def update(self, batch: Batch, optimizers: Mapping[str, Optimizer], backward: Backward) -> dict[str, Tensor]:
        """Do one training step.

        Args:
            batch: A mini-batch of each training domain.
            optimizers: As :meth:`optimizers` made them.
            backward: Back-propagates from a scalar.

        Returns:
            `"loss"`, the mean of the inner steps' losses.
        """
        moved = [*self.network.parameters(), *(b for b in self.network.buffers() if b.is_floating_point())]
        before = [tensor.detach().clone() for tensor in moved]
        losses = []
        for domain in batch.per_domain(self.num_domains):
            _, logits = self.network(domain.inputs)
            loss = cross_entropy(logits, domain.targets)
            self._descend(loss, optimizers["network"], backward)
            losses.append(loss.detach())
        with torch.no_grad():
            for tensor, start in zip(moved, before, strict=True):
                tensor.copy_(start.lerp(tensor, self.hparams["meta_lr"]))
        return {"loss": torch.stack(losses).mean()}
