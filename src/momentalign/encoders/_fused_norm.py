"""A convolution's bias, ReLU and GroupNorm as one operation, forward and backward, for CUDA devices.

Between the convolutions of a small network they take as long as the convolutions. PyTorch reads and writes the
activations several times, in float32 under autocast, and turns images of the channels-last format, which convolutions
prefer, back into the other. Here it is one read and one write forward, two reads and one write backward, in either
format and in the images' precision; statistics are float32 whatever the images are. Where the mean over pixels is all
that is wanted of the last one, it alone is written.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from momentalign._triton import can_use, power
from momentalign.encoders import _fused_kernels as kernels

_LARGEST = 2**14
"""Numbers that one program can hold in registers."""

_MANY = 1024
"""Images from which on there are more programs than a device can run at once."""


def can_fuse(images: Tensor, channels: int) -> bool:
    """Whether :func:`relu_group_norm` pays: on CUDA, with Triton, for small images, and not where a compiler does it.

    Args:
        images: Shape (n, any, height, width).
        channels: Of a group of what it would be called on.

    Returns:
        Whether it does.
    """
    return can_use(images) and power(images.shape[2] * images.shape[3]) * power(channels) <= _LARGEST


def relu_group_norm(
    images: Tensor, shift: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, *, pool: bool = False
) -> Tensor:
    """Compute group_norm(relu(images + shift)), or its mean over pixels.

    Args:
        images: Shape (N, C, height, width), in either memory format: what a convolution without its bias gives.
        shift: That bias, float32, shape (C,).
        weight: Float32, shape (C,).
        bias: Float32, shape (C,).
        groups: G, which divides C.
        eps: Added to the variance.
        pool: Whether to give the mean over pixels.

    Returns:
        Shape, type and memory format of the images; with `pool` float32, shape (N, C).
    """
    found: Tensor = _ReLUGroupNorm.apply(images, shift, weight, bias, groups, eps, pool)  # type: ignore[no-untyped-call]
    return found


class _ReLUGroupNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, images: Tensor, shift: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, pool: bool
    ) -> Tensor:
        images = _in_order(images)
        number, channels = images.shape[:2]
        result = images.new_empty(number, channels, dtype=torch.float32) if pool else torch.empty_like(images)
        mean, scale = torch.empty(2, number, groups, dtype=torch.float32, device=images.device)
        blocks = _blocks(images, groups)
        kernels.forward[number, -(-groups // blocks["BLOCK_G"])](
            images, shift, result, weight, bias, mean, scale,
            *_strides(images), *((channels, 1, 0) if pool else _strides(result)), images[0, 0].numel(), groups, eps,
            D=channels // groups, POOL=pool, **blocks,
        )  # fmt: skip
        ctx.save_for_backward(images, shift, weight, bias, mean, scale)
        ctx.groups, ctx.eps, ctx.pool = groups, eps, pool
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        images, shift, weight, bias, mean, scale = ctx.saved_tensors
        (gradient,) = gradients
        if torch.is_grad_enabled():  # somebody wants derivatives of this gradient: let PyTorch's own operations have it
            moved = images.float() + shift[:, None, None]
            plain = F.group_norm(F.relu(moved), ctx.groups, weight, bias, ctx.eps).to(gradient.dtype)
            plain = plain.mean((2, 3)) if ctx.pool else plain
            found = torch.autograd.grad(plain, (images, shift, weight, bias), gradient, create_graph=True)
            return *found, None, None, None
        number, channels, pixels = len(images), images.shape[1], images[0, 0].numel()
        if ctx.pool:  # every pixel has its share of the mean's gradient
            gradient = (gradient / pixels)[:, :, None, None].expand(images.shape)
        gradient = _in_order(gradient)
        result = torch.empty_like(images)
        # Of every image; their sum is the parameters' gradient.
        parts = torch.empty(3, number, channels, dtype=torch.float32, device=images.device)
        blocks = _blocks(images, ctx.groups)
        kernels.backward[number, -(-ctx.groups // blocks["BLOCK_G"])](
            images, shift, gradient, result, weight, mean, scale, *parts,
            *_strides(images), *_strides(gradient), *_strides(result), pixels, ctx.groups,
            D=channels // ctx.groups, **blocks,
        )  # fmt: skip
        return result, *parts.sum(1), None, None, None


def _strides(images: Tensor) -> tuple[int, int, int]:
    """Steps in memory from image to image, channel to channel and pixel to pixel."""
    image, channel, _, pixel = images.stride()
    return image, channel, pixel


def _in_order(images: Tensor) -> Tensor:
    """The images with one step from pixel to pixel also where a row ends."""
    _, _, row, pixel = images.stride()
    in_order = row == pixel * images.shape[3]
    return images if in_order else images.contiguous(memory_format=torch.channels_last)


def _blocks(images: Tensor, groups: int) -> dict[str, int]:
    """Sizes of a program's block, and its warps: what was fastest for batches and for evaluation on an H200."""
    pixels, channels = power(images[0, 0].numel()), power(images.shape[1] // groups)
    many = len(images) >= _MANY
    together = 2 if groups > 1 and (many or pixels * channels > 4096) else 1
    warps = pixels * channels * together // 1024
    return {
        "BLOCK_P": pixels,
        "BLOCK_G": together,
        "BLOCK_D": channels,
        "num_warps": min(16 if many else 8, max(1, warps)),
    }
