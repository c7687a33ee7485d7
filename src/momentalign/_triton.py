"""What kernels in Triton's dialect of Python share on the host's side: where they can be used, and sizes of blocks."""

from importlib.util import find_spec

import torch
from torch import Tensor

AVAILABLE = find_spec("triton") is not None
"""Whether there is Triton, which comes with PyTorch for CUDA."""


def can_use(*tensors: Tensor) -> bool:
    """Whether kernels may be used: all tensors on CUDA, with Triton, and not where a compiler makes its own."""
    return AVAILABLE and all(tensor.is_cuda for tensor in tensors) and not torch.compiler.is_compiling()


def are_single(*tensors: Tensor) -> bool:
    """Whether all tensors are float32, which the kernels compute in."""
    return all(tensor.dtype == torch.float32 for tensor in tensors)


def blocks(size: int, block: int) -> int:
    """How many blocks it takes to hold so many."""
    return -(-size // block)


def power(size: int, least: int = 1) -> int:
    """Size of one block that holds so many: a power of two. A side of a matrix product needs sixteen at least."""
    return max(least, 1 << max(0, size - 1).bit_length())
