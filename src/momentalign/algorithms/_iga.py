"""Inter-gradient alignment: the domains' gradients of all parameters should agree."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim import Optimizer

from momentalign.algorithms._base import Algorithm, Backward
from momentalign.algorithms._batch import Batch
from momentalign.algorithms._domain_gradients import domain_gradients, domain_losses
from momentalign.algorithms._search import Hyperparameter, SearchSpace, power_of_ten


class IGA(Algorithm):
    r"""Adds :math:`\lambda \sum_e \|g_e - \bar g\|^2` over the gradients of *all* parameters, not of the head alone.

    There is no closed form for that: each domain's gradient is back-propagated through, which costs K backward
    passes and their graphs. The sum over domains is not divided by their number.

    Args:
        network: What is trained.
        num_domains: Number of training domains.
        hparams: The shared hyper-parameters and `gradient_weight`, the λ.
    """

    @classmethod
    def search_space(cls, recipe: str, steps: int) -> SearchSpace:
        """Hyper-parameters of IGA.

        Args:
            recipe: Of no effect.
            steps: Of no effect.

        Returns:
            `gradient_weight`, the weight of the gradients' distance from their mean.
        """
        return {"gradient_weight": Hyperparameter(1000.0, power_of_ten(1, 5), low=0)}

    def update(self, batch: Batch, optimizers: Mapping[str, Optimizer], backward: Backward) -> dict[str, Tensor]:
        """Do one training step.

        Args:
            batch: A mini-batch of each training domain.
            optimizers: As :meth:`optimizers` made them.
            backward: Back-propagates from a scalar.

        Returns:
            `"loss"`, `"cross_entropy"`, and `"all_gradients"`, the sum of squared distances.
        """
        losses = domain_losses(self.network, batch, self.num_domains)
        parameters = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        gradients = domain_gradients(losses, parameters, create_graph=True)
        distances = []
        for same_parameter in zip(*gradients, strict=True):
            stacked = torch.stack(same_parameter)
            distances.append((stacked - stacked.mean(0)).square().sum())
        term, mean = torch.stack(distances).sum(), torch.stack(losses).mean()
        loss = mean + self.hparams["gradient_weight"] * term
        self._descend(loss, optimizers["network"], backward)
        return {"loss": loss.detach(), "cross_entropy": mean.detach(), "all_gradients": term.detach()}
