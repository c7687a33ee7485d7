"""ReLU and GroupNorm as one operation; needs a CUDA device, or Triton with TRITON_INTERPRET=1."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from momentalign.encoders import MNIST_CNN
from momentalign.encoders._fused_norm import can_fuse, relu_group_norm
from tests.kernels import DEVICE, INTERPRETED, needs_device


def example(shape: tuple[int, int, int, int], dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """Images, the convolution's bias, weight and bias of the norm."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(shape, generator=generator).to(DEVICE, dtype)
    vectors = torch.randn(3, shape[1], generator=generator).to(DEVICE)
    return images.requires_grad_(), *(vector.clone().requires_grad_() for vector in vectors)


def fused(*inputs: Tensor, pool: bool = False) -> Tensor:
    images, shift, weight, bias = inputs
    return relu_group_norm(images, shift, weight, bias, 8, 1e-5, pool=pool)


def plainly(*inputs: Tensor, pool: bool = False) -> Tensor:
    images, shift, weight, bias = (tensor.double() for tensor in inputs)
    found = F.group_norm(F.relu(images + shift[:, None, None]), 8, weight, bias, 1e-5)
    return found.mean((2, 3)) if pool else found


def error(found: Tensor, expected: Tensor) -> float:
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm())


@needs_device
@pytest.mark.parametrize("shape", [(3, 16, 5, 7), (2, 24, 4, 4), (2, 64, 28, 28), (3, 128, 14, 14)], ids=str)
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
def test_value_and_gradients(
    shape: tuple[int, int, int, int], channels_last: bool, pool: bool, dtype: torch.dtype, tolerance: float
) -> None:
    images, *vectors = example(shape, dtype)
    if channels_last:
        images = images.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    result = fused(images, *vectors, pool=pool)
    expected = plainly(images, *vectors, pool=pool)
    assert result.shape == expected.shape
    assert result.dtype == (torch.float32 if pool else dtype)
    assert pool or result.stride() == images.stride()
    assert error(result, expected) < tolerance
    gradient = torch.randn(result.shape, device=DEVICE).to(result.dtype)
    found = torch.autograd.grad(result, (images, *vectors), gradient)
    wanted = torch.autograd.grad(expected, (images, *vectors), gradient.double())
    assert max(map(error, found, wanted)) < tolerance


@needs_device
@pytest.mark.parametrize("pool", [False, True])
def test_gradients_of_gradients_and_of_a_mean(pool: bool) -> None:
    inputs = example((2, 16, 4, 4))

    def score(operation: Callable[..., Tensor]) -> Tensor:
        found = operation(*inputs, pool=pool)
        return (found if pool else found.mean((2, 3))).square().sum()

    found, wanted = (torch.autograd.grad(score(operation), inputs, create_graph=True) for operation in (fused, plainly))
    assert max(map(error, found, wanted)) < 1e-5
    second = [torch.autograd.grad(sum(g.square().sum() for g in first), inputs[:3]) for first in (found, wanted)]
    assert max(map(error, *second)) < 1e-5
    plain = torch.autograd.grad(score(fused), inputs)
    assert max(map(error, plain, wanted)) < 1e-5


@needs_device
@pytest.mark.parametrize("pool", [False, True])
def test_what_is_not_a_number_stays_so(pool: bool) -> None:
    images, *vectors = example((1, 8, 2, 2), torch.bfloat16)
    assert fused(images * torch.nan, *vectors, pool=pool).isnan().all()


@needs_device
@pytest.mark.parametrize("size", [8, 28])
def test_the_network_is_the_same(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("momentalign.encoders._networks.can_fuse", lambda *_: True)
    torch.manual_seed(0)
    encoder = MNIST_CNN(2, width=16).to(DEVICE)
    images = torch.rand(5, 2, size, size, device=DEVICE)
    plain = encoder.layers(images)
    assert error(encoder(images), plain) < 1e-3  # convolutions on a GPU may take tf32
    with torch.autocast(DEVICE, torch.bfloat16):
        features = encoder(images)
    assert features.dtype == torch.float32
    assert error(features, plain) < 2e-2


def test_it_is_left_alone_where_it_does_not_pay() -> None:
    assert not can_fuse(torch.zeros(1, 2, 28, 28), 8)  # on the host


@needs_device
@pytest.mark.skipif(INTERPRETED, reason="needs a CUDA device")
def test_large_images_are_left_alone() -> None:
    assert can_fuse(torch.zeros(1, 2, 28, 28, device=DEVICE), 8)
    assert not can_fuse(torch.zeros(1, 2, 64, 64, device=DEVICE), 8)
