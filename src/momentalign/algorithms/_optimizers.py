"""Optimizers by name, and how their state is made new."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from momentalign._validation import check_choice

OPTIMIZERS: dict[str, type[Adam]] = {"adam": Adam, "adamw": AdamW}


def make_optimizer(name: str, parameters: Iterable[nn.Parameter], **options: Any) -> Optimizer:
    """Make a new optimizer whose step is one call for all parameters, and on CUDA can be captured in a graph.

    Args:
        name: `"adam"` or `"adamw"`.
        parameters: What it changes.
        **options: Learning rate, weight decay and so on.

    Returns:
        The optimizer.
    """
    parameters = list(parameters)
    devices = {parameter.device.type for parameter in parameters}
    options = {"fused": devices <= {"cpu", "cuda"}, "capturable": devices == {"cuda"}} | options
    return OPTIMIZERS[check_choice("optimizer", name, OPTIMIZERS)](parameters, **options)


@torch.no_grad()
def reset_optimizer(optimizer: Optimizer) -> None:
    """Make an optimizer's state new, as annealing asks for where the loss changes.

    The averages and step counts of Adam and AdamW are set to zero in place, which is what a new optimizer starts
    from and what keeps a captured graph valid. Any other optimizer forgets its state.

    Args:
        optimizer: The optimizer; its learning rate and other settings stay.
    """
    if not isinstance(optimizer, Adam):
        optimizer.state.clear()
        return
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.zero_()
