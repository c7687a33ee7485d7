"""A convolution's bias, ReLU and GroupNorm as one operation, forward and backward, for CUDA devices.

Between the convolutions of a small network they take as long as the convolutions: PyTorch reads and writes the
activations several times, in float32 under autocast, and converts images from channels last, which convolutions prefer.
Here they are one read and one write forward, two reads and one write backward, in either memory format and in the
images' precision; statistics are float32. Where only the mean over pixels is needed, only that is written.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from momentalign._triton import AVAILABLE, can_use
from momentalign.encoders import _fused_kernels as kernels

if AVAILABLE:
    import triton

_LARGEST = 2**14
"""Numbers that one program can hold in registers."""

_MANY = 1024
"""Number of images from which on there are more programs than a device can run at once."""


def can_fuse(images: Tensor, channels: int) -> bool:
    """Whether :func:`relu_group_norm` can be used: on CUDA with Triton, for small images and `channels` in a group."""
    if not can_use(images):
        return False
    pixels = images.shape[2] * images.shape[3]
    return bool(triton.next_power_of_2(pixels) * triton.next_power_of_2(channels) <= _LARGEST)


def relu_group_norm(
    images: Tensor, shift: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, *, pool: bool = False
) -> Tensor:
    """Compute group_norm(relu(images + shift)), or with `pool` its mean over pixels.

    `images` (N, C, height, width), in either memory format, are the output of a convolution without its bias, which is
    `shift`; `shift`, `weight` and `bias` are float32 of shape (C,). The result has the shape, type and memory format of
    the images; with `pool` it is float32 of shape (N, C).
    """
    result: Tensor = _ReLUGroupNorm.apply(images, shift, weight, bias, groups, eps, pool)  # type: ignore[no-untyped-call]
    return result


class _Saved(NamedTuple):
    """What the backward pass reads."""

    images: Tensor
    shift: Tensor
    weight: Tensor
    bias: Tensor
    mean: Tensor
    scale: Tensor


class _ReLUGroupNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, images: Tensor, shift: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, pool: bool
    ) -> Tensor:
        images = _in_order(images)
        number, channels = images.shape[:2]
        result = images.new_empty(number, channels, dtype=torch.float32) if pool else torch.empty_like(images)
        mean, scale = torch.empty(2, number, groups, dtype=torch.float32, device=images.device)
        sizes = _block_sizes(images, groups)
        kernels.forward[number, triton.cdiv(groups, sizes["BLOCK_G"])](
            images, shift, result, weight, bias, mean, scale,
            *_strides(images), *((channels, 1, 0) if pool else _strides(result)), images[0, 0].numel(), groups, eps,
            D=channels // groups, POOL=pool, **sizes,
        )  # fmt: skip
        ctx.save_for_backward(*_Saved(images, shift, weight, bias, mean, scale))
        ctx.groups, ctx.eps, ctx.pool = groups, eps, pool
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        saved, (gradient,) = _Saved(*ctx.saved_tensors), gradients
        images = saved.images
        if torch.is_grad_enabled():
            moved = images.float() + saved.shift[:, None, None]
            plain = F.group_norm(F.relu(moved), ctx.groups, saved.weight, saved.bias, ctx.eps).to(gradient.dtype)
            plain = plain.mean((2, 3)) if ctx.pool else plain
            return *torch.autograd.grad(plain, saved[:4], gradient, create_graph=True), None, None, None
        number, channels, pixels = len(images), images.shape[1], images[0, 0].numel()
        if ctx.pool:
            gradient = (gradient / pixels)[:, :, None, None].expand(images.shape)
        gradient = _in_order(gradient)
        result = torch.empty_like(images)
        # Of every image; their sum is the parameters' gradient.
        parts = torch.empty(3, number, channels, dtype=torch.float32, device=images.device)
        sizes = _block_sizes(images, ctx.groups)
        kernels.backward[number, triton.cdiv(ctx.groups, sizes["BLOCK_G"])](
            images, saved.shift, gradient, result, saved.weight, saved.mean, saved.scale, *parts,
            *_strides(images), *_strides(gradient), *_strides(result), pixels, ctx.groups,
            D=channels // ctx.groups, **sizes,
        )  # fmt: skip
        return result, *parts.sum(1), None, None, None


def _strides(images: Tensor) -> tuple[int, int, int]:
    """Strides from image to image, channel to channel and pixel to pixel."""
    image, channel, _, pixel = images.stride()
    return image, channel, pixel


def _in_order(images: Tensor) -> Tensor:
    """The images with one stride between pixels, also from row to row."""
    _, _, row, pixel = images.stride()
    in_order = row == pixel * images.shape[3]
    return images if in_order else images.contiguous(memory_format=torch.channels_last)


def _block_sizes(images: Tensor, groups: int) -> dict[str, int]:
    """Block sizes and warps of a program: the fastest for training and for evaluation on an H200."""
    pixels, channels = (triton.next_power_of_2(size) for size in (images[0, 0].numel(), images.shape[1] // groups))
    many = len(images) >= _MANY
    together = 2 if groups > 1 and (many or pixels * channels > 4096) else 1
    warps = pixels * channels * together // 1024
    return {
        "BLOCK_P": pixels,
        "BLOCK_G": together,
        "BLOCK_D": channels,
        "num_warps": min(16 if many else 8, max(1, warps)),
    }
