"""AND-Mask: only what the domains' gradients agree on is learnt."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim import Optimizer

from momentalign.algorithms._base import Algorithm, Backward
from momentalign.algorithms._batch import Batch
from momentalign.algorithms._domain_gradients import domain_gradients, domain_losses
from momentalign.algorithms._search import Hyperparameter, SearchSpace, uniform


class ANDMask(Algorithm):
    r"""Steps along the mean gradient where the domains' gradients agree in sign.

    They do where :math:`|\frac1K\sum_e \mathrm{sign}\,g_e| \ge \tau`, with τ = 1 where all of them do. Elsewhere the
    gradient is 0; what is kept of a tensor is divided by the share that was kept. The gradients come from K backward
    passes, not from the loop's `backward`.

    Args:
        network: What is trained.
        num_domains: Number of training domains.
        hparams: The shared hyper-parameters and `tau`.
    """

    @classmethod
    def search_space(cls, recipe: str, steps: int) -> SearchSpace:
        """Hyper-parameters of AND-Mask.

        Args:
            recipe: Of no effect.
            steps: Of no effect.

        Returns:
            `tau`, the agreement that is asked for.
        """
        return {"tau": Hyperparameter(1.0, uniform(0.5, 1.0), low=0, high=1)}

    def update(self, batch: Batch, optimizers: Mapping[str, Optimizer], backward: Backward) -> dict[str, Tensor]:
        """Do one training step.

        Args:
            batch: A mini-batch of each training domain.
            optimizers: As :meth:`optimizers` made them.
            backward: Of no effect: the domains' gradients are needed one by one.

        Returns:
            `"loss"`, and `"kept"`, the share of all parameters whose gradient was kept.
        """
        losses = domain_losses(self.network, batch, self.num_domains)
        parameters = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        gradients = domain_gradients(losses, parameters, create_graph=False)
        kept, total = [], sum(parameter.numel() for parameter in parameters)
        for parameter, same_parameter in zip(parameters, zip(*gradients, strict=True), strict=True):
            stacked = torch.stack(same_parameter)
            # Sums of signs are whole numbers, exact where means might round to less than one.
            mask = (stacked.sign().sum(0).abs() >= self.hparams["tau"] * self.num_domains).to(stacked.dtype)
            parameter.grad = mask * stacked.mean(0) / mask.mean().clamp(min=1 / mask.numel())
            kept.append(mask.sum())
        self._step(optimizers["network"])
        return {"loss": torch.stack(losses).detach().mean(), "kept": torch.stack(kept).sum() / total}
