"""ReLU and GroupNorm as one operation, forward and backward, for CUDA devices.

Between the convolutions of a small network they take as long as the convolutions. PyTorch reads and writes the
activations several times, in float32 under autocast, and turns images of the channels-last format, which convolutions
prefer, back into the other. Here it is one read and one write forward, two reads and one write backward, in either
format and in the images' precision; statistics are float32 whatever the images are.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from momentalign.encoders import _fused_kernels as kernels

_LARGEST = 2**14
"""Numbers that one program can hold in registers."""


def can_fuse(images: Tensor, channels: int) -> bool:
    """Whether :func:`relu_group_norm` pays: on CUDA, with Triton, for small images, and not where a compiler does it.

    Args:
        images: Shape (n, any, height, width).
        channels: Of a group of what it would be called on.

    Returns:
        Whether it does.
    """
    if not (images.is_cuda and kernels.AVAILABLE) or torch.compiler.is_compiling():
        return False
    return _power(images.shape[2] * images.shape[3]) * _power(channels) <= _LARGEST


def relu_group_norm(
    images: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, dtype: torch.dtype | None = None
) -> Tensor:
    """Compute group_norm(relu(images)).

    Args:
        images: Shape (N, C, height, width), in either memory format.
        weight: Float32, shape (C,).
        bias: Float32, shape (C,).
        groups: G, which divides C.
        eps: Added to the variance.
        dtype: Of the result; that of the images if not given.

    Returns:
        Shape and memory format of the images.
    """
    found: Tensor = _ReLUGroupNorm.apply(images, weight, bias, groups, eps, dtype or images.dtype)  # type: ignore[no-untyped-call]
    return found


class _ReLUGroupNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, images: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, dtype: torch.dtype
    ) -> Tensor:
        images = _in_order(images)
        number, channels = images.shape[:2]
        result = torch.empty_like(images, dtype=dtype)
        mean, scale = torch.empty(2, number, groups, dtype=torch.float32, device=images.device)
        kernels.forward[number, groups](
            images, result, weight, bias, mean, scale,
            *_strides(images), *_strides(result), *_sizes(images, groups), eps,
            **_blocks(images, groups)
        )  # fmt: skip
        ctx.save_for_backward(images, weight, bias, mean, scale)
        ctx.groups, ctx.eps, ctx.channels = groups, eps, channels
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        images, weight, bias, mean, scale = ctx.saved_tensors
        (gradient,) = gradients
        if torch.is_grad_enabled():  # somebody wants derivatives of this gradient: let PyTorch's own operations have it
            plain = F.group_norm(F.relu(images.float()), ctx.groups, weight, bias, ctx.eps).to(gradient.dtype)
            return (*torch.autograd.grad(plain, (images, weight, bias), gradient, create_graph=True), None, None, None)
        number, gradient = len(images), _in_order(gradient)
        found = torch.empty_like(images)
        # Of every image; their sum is the parameters' gradient.
        parts = torch.empty(2, number, ctx.channels, dtype=torch.float32, device=images.device)
        kernels.backward[number, ctx.groups](
            images, gradient, found, weight, mean, scale, parts[0], parts[1],
            *_strides(images), *_strides(gradient), *_strides(found), *_sizes(images, ctx.groups),
            **_blocks(images, ctx.groups)
        )  # fmt: skip
        weight_gradient, bias_gradient = parts.sum(1)
        return found, weight_gradient, bias_gradient, None, None, None


def _strides(images: Tensor) -> tuple[int, int, int]:
    """Steps in memory from image to image, channel to channel and pixel to pixel."""
    image, channel, _, pixel = images.stride()
    return image, channel, pixel


def _in_order(images: Tensor) -> Tensor:
    """The images with one step from pixel to pixel also where a row ends."""
    _, _, row, pixel = images.stride()
    in_order = row == pixel * images.shape[3]
    return images if in_order else images.contiguous(memory_format=torch.channels_last)


def _sizes(images: Tensor, groups: int) -> tuple[int, int, int]:
    return images.shape[2] * images.shape[3], images.shape[1] // groups, groups


def _blocks(images: Tensor, groups: int) -> dict[str, int]:
    pixels, channels, _ = _sizes(images, groups)
    block_p, block_d = _power(pixels), _power(channels)
    return {"BLOCK_P": block_p, "BLOCK_D": block_d, "num_warps": min(16, max(1, block_p * block_d // 512))}


def _power(size: int) -> int:
    """The next power of two."""
    return 1 << max(0, size - 1).bit_length()
