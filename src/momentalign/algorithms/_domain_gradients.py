"""Losses and gradients of the domains, for algorithms that look at all parameters."""

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy

from momentalign.algorithms._batch import Batch


def domain_losses(network: nn.Module, batch: Batch, num_domains: int) -> list[Tensor]:
    """Mean cross-entropy of each domain, from one forward pass over the whole batch.

    Args:
        network: Gives features and logits.
        batch: A mini-batch of each training domain.
        num_domains: Their number.

    Returns:
        A scalar for each domain.
    """
    rows = len(batch.per_domain(num_domains)[0])
    with sdpa_kernel(SDPBackend.MATH):  # the only attention that can be differentiated twice
        _, logits = network(batch.inputs)
    return [cross_entropy(z, y) for z, y in zip(logits.split(rows), batch.targets.split(rows), strict=True)]


def domain_gradients(
    losses: list[Tensor], parameters: list[nn.Parameter], *, create_graph: bool
) -> list[tuple[Tensor, ...]]:
    """Gradients of the domains' losses.

    Args:
        losses: As :func:`domain_losses` gives them.
        parameters: What to differentiate with respect to; one that a loss does not depend on has gradient zero.
        create_graph: Whether the gradients are to be differentiated again.

    Returns:
        For each domain the gradients, in the parameters' order.
    """
    return [
        torch.autograd.grad(
            loss, parameters, create_graph=create_graph, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        for loss in losses
    ]
