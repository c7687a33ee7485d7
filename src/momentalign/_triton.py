"""Host code shared by the Triton kernels: when they can be used, and their backward passes in autograd."""

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

AVAILABLE = find_spec("triton") is not None
"""Whether Triton is installed; it comes with PyTorch for CUDA."""


def can_use(*tensors: Tensor) -> bool:
    """Whether kernels can be used: Triton is installed, all tensors are on CUDA, and torch.compile is not tracing."""
    return AVAILABLE and all(tensor.is_cuda for tensor in tensors) and not torch.compiler.is_compiling()


def can_use_float32(*tensors: Tensor) -> bool:
    """Whether kernels that compute in float32 can be used."""
    return can_use(*tensors) and all(tensor.dtype == torch.float32 for tensor in tensors)


def save_outputs(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...], values: int) -> None:
    """Save inputs and all outputs after the first `values`, which only the backward pass reads."""
    ctx.mark_non_differentiable(*output[values:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs, *output[values:])


def zero_where_missing(like: Tensor, *grads: Tensor | None) -> tuple[Tensor, ...]:
    """Incoming gradients of scalars, zero for one that the loss does not use."""
    return tuple(like.new_zeros(()) if grad is None else grad for grad in grads)


def differentiable_gradients(
    values: Tensor | tuple[Tensor, ...],
    inputs: tuple[Tensor, ...],
    grads: Tensor | tuple[Tensor, ...],
) -> tuple[Tensor | None, ...]:
    """Gradients of plain operations that can be differentiated again; None for an input that needs none."""
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    gradients = iter(torch.autograd.grad(values, wanted, grads, create_graph=True))
    return tuple(next(gradients) if tensor.requires_grad else None for tensor in inputs)
