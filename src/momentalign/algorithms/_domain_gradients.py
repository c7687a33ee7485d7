"""Algorithms on the domains' gradients of all parameters: Fish, IGA and AND-Mask."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy

from momentalign.algorithms._base import Algorithm, Backward, Batch, Optimizers


class Fish(Algorithm):
    r"""Inner optimizer steps, one for each domain in turn, then :math:`\theta + m(\theta_{inner} - \theta)`.

    To second order this raises the inner products of the domains' gradients, of all parameters. The inner
    optimizer's averages persist from step to step. Running averages of the network, as in batch normalisation, move
    by the same share.
    """

    def update(self, batch: Batch, optimizers: Optimizers, backward: Backward) -> dict[str, Tensor]:
        """Do one step; `"loss"` is the mean of the inner steps' losses."""
        moved = [*self.network.parameters(), *(b for b in self.network.buffers() if b.is_floating_point())]
        before = [tensor.detach().clone() for tensor in moved]
        losses = []
        for domain in batch.per_domain(self.num_domains):
            _, logits = self.network(domain.inputs)
            loss = cross_entropy(logits, domain.targets)
            losses.append(self.descend(loss, optimizers["network"], backward)["loss"])
        with torch.no_grad():
            for tensor, start in zip(moved, before, strict=True):
                tensor.copy_(start.lerp(tensor, self.hparams["meta_lr"]))
        return {"loss": torch.stack(losses).mean()}


class IGA(Algorithm):
    r"""Inter-gradient alignment: adds :math:`\lambda \sum_e \|g_e - \bar g\|^2` over the gradients of *all* parameters.

    There is no closed form for that: each domain's gradient is back-propagated through, which costs K backward
    passes and their graphs. The sum over domains is not divided by their number.
    """

    term_labels: ClassVar = {"all_gradients": "IGA: spread of all gradients"}

    def update(self, batch: Batch, optimizers: Optimizers, backward: Backward) -> dict[str, Tensor]:
        """Do one step; logs `"all_gradients"`, the sum of squared distances."""
        losses, _, gradients = _domain_gradients(self, batch, create_graph=True)
        stacked = [torch.stack(same_parameter) for same_parameter in zip(*gradients, strict=True)]
        term = torch.stack([(each - each.mean(0)).square().sum() for each in stacked]).sum()
        mean = torch.stack(losses).mean()
        loss = mean + self.hparams["gradient_weight"] * term
        return self.descend(loss, optimizers["network"], backward, cross_entropy=mean, all_gradients=term)


class ANDMask(Algorithm):
    r"""Steps along the mean gradient where the domains' gradients agree in sign.

    They do where :math:`|\frac1K\sum_e \mathrm{sign}\,g_e| \ge \tau`, with τ = 1 where all of them do. Elsewhere the
    gradient is 0; what is kept of a tensor is divided by the share that was kept. The gradients come from K backward
    passes, not from the loop's `backward`.
    """

    term_labels: ClassVar = {"kept": "AND-Mask: share of gradients kept"}

    def update(self, batch: Batch, optimizers: Optimizers, backward: Backward) -> dict[str, Tensor]:
        """Do one step without `backward`; logs `"kept"`, the share of all parameters whose gradient was kept."""
        losses, parameters, gradients = _domain_gradients(self, batch, create_graph=False)
        kept, total = [], sum(parameter.numel() for parameter in parameters)
        for parameter, same_parameter in zip(parameters, zip(*gradients, strict=True), strict=True):
            stacked = torch.stack(same_parameter)
            # Sums of signs are integers, exact where means could round to less than one.
            mask = (stacked.sign().sum(0).abs() >= self.hparams["tau"] * self.num_domains).to(stacked.dtype)
            parameter.grad = mask * stacked.mean(0) / mask.mean().clamp(min=1 / mask.numel())
            kept.append(mask.sum())
        self._step(optimizers["network"])
        return {"loss": torch.stack(losses).detach().mean(), "kept": torch.stack(kept).sum() / total}


def _domain_gradients(
    algorithm: Algorithm, batch: Batch, *, create_graph: bool
) -> tuple[list[Tensor], list[nn.Parameter], list[tuple[Tensor, ...]]]:
    """Loss of each domain from one forward pass, trained parameters, and for each domain their gradients."""
    network = algorithm.network
    rows = len(batch.per_domain(algorithm.num_domains)[0])
    with sdpa_kernel(SDPBackend.MATH):  # the only attention that can be differentiated twice
        _, logits = network(batch.inputs)
    losses = [cross_entropy(z, y) for z, y in zip(logits.split(rows), batch.targets.split(rows), strict=True)]
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    gradients = [
        torch.autograd.grad(
            loss, parameters, create_graph=create_graph, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        for loss in losses
    ]
    return losses, parameters, gradients
