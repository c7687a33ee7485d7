"""ReLU and GroupNorm as one operation; needs a CUDA device, or Triton with TRITON_INTERPRET=1."""

import os

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from momentalign.encoders import MNIST_CNN
from momentalign.encoders._fused_kernels import AVAILABLE
from momentalign.encoders._fused_norm import can_fuse, relu_group_norm

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
needs_device = pytest.mark.skipif(
    not (AVAILABLE and (INTERPRETED or torch.cuda.is_available())), reason="needs a CUDA device"
)


def example(shape: tuple[int, int, int, int], dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(shape, generator=generator).to(DEVICE, dtype)
    weight, bias = torch.randn(2, shape[1], generator=generator).to(DEVICE)
    return images.requires_grad_(), weight.requires_grad_(), bias.requires_grad_()


def plainly(images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.group_norm(F.relu(images.double()), 8, weight.double(), bias.double(), 1e-5)


def error(found: Tensor, expected: Tensor) -> float:
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm())


@needs_device
@pytest.mark.parametrize("shape", [(3, 16, 5, 7), (2, 24, 4, 4), (2, 64, 28, 28), (3, 128, 14, 14)], ids=str)
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 3e-6), (torch.bfloat16, 1e-2)])
def test_value_and_gradients(
    shape: tuple[int, int, int, int], channels_last: bool, dtype: torch.dtype, tolerance: float
) -> None:
    images, weight, bias = example(shape, dtype)
    if channels_last:
        images = images.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    result = relu_group_norm(images, weight, bias, 8, 1e-5)
    expected = plainly(images, weight, bias)
    assert (result.dtype, result.stride()) == (dtype, images.stride())
    assert error(result, expected) < tolerance
    gradient = torch.randn(shape, device=DEVICE).to(dtype)
    found = torch.autograd.grad(result, (images, weight, bias), gradient)
    wanted = torch.autograd.grad(expected, (images, weight, bias), gradient.double())
    assert max(map(error, found, wanted)) < tolerance


@needs_device
def test_gradients_of_gradients_and_of_a_mean() -> None:
    inputs = example((2, 16, 4, 4))
    found, wanted = (
        torch.autograd.grad(operation(*inputs).mean((2, 3)).square().sum(), inputs, create_graph=True)
        for operation in (lambda *args: relu_group_norm(*args, 8, 1e-5), plainly)
    )
    assert max(map(error, found, wanted)) < 1e-5
    second = [torch.autograd.grad(sum(g.square().sum() for g in first), inputs[:2]) for first in (found, wanted)]
    assert max(map(error, *second)) < 1e-5
    plain = torch.autograd.grad(relu_group_norm(*inputs, 8, 1e-5).mean((2, 3)).square().sum(), inputs)
    assert max(map(error, plain, wanted)) < 1e-5


@needs_device
def test_what_is_not_a_number_stays_so_and_the_type_can_be_chosen() -> None:
    images, weight, bias = example((1, 8, 2, 2), torch.bfloat16)
    assert relu_group_norm(images, weight, bias, 8, 1e-5, torch.float32).dtype == torch.float32
    assert relu_group_norm(images * torch.nan, weight, bias, 8, 1e-5).isnan().all()


@needs_device
@pytest.mark.parametrize("size", [8, 28])
def test_the_network_is_the_same(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("momentalign.encoders._mnist_cnn.can_fuse", lambda *_: True)
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
