import pytest
import torch
import torch.nn.functional as F
from torch import nn

from momentalign.encoders import MNIST_CNN, encoder_from_config

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("channels", "width", "size"), [(2, 64, 28), (1, 64, 28), (2, 16, 8)])
def test_shapes(channels: int, width: int, size: int) -> None:
    encoder = MNIST_CNN(channels, width)
    features = encoder(torch.rand(3, channels, size, size))
    assert features.shape == (3, 2 * width)
    assert encoder.num_features == 2 * width


def test_equals_the_protocol_layer_by_layer() -> None:
    torch.manual_seed(0)
    encoder = MNIST_CNN(2, 16).double()
    images = torch.rand(4, 2, 8, 8, dtype=torch.float64)
    convolutions = [m for m in encoder.modules() if isinstance(m, nn.Conv2d)]
    norms = [m for m in encoder.modules() if isinstance(m, nn.GroupNorm)]
    assert [c.out_channels for c in convolutions] == [16, 32, 32, 32]
    x = images
    for convolution, norm, stride in zip(convolutions, norms, (1, 2, 1, 1), strict=True):
        x = F.relu(F.conv2d(x, convolution.weight, convolution.bias, stride=stride, padding=1))
        x = F.group_norm(x, 8, norm.weight, norm.bias)
    torch.testing.assert_close(encoder(images), x.mean((2, 3)))


def test_number_of_parameters_at_full_width() -> None:
    convolutions = (2 * 9 + 1) * 64 + (64 * 9 + 1) * 128 + 2 * (128 * 9 + 1) * 128
    norms = 2 * (64 + 3 * 128)
    assert sum(p.numel() for p in MNIST_CNN(2).parameters()) == convolutions + norms


@pytest.mark.parametrize("width", [0, -8, 12])
def test_rejects_a_width_that_does_not_group(width: int) -> None:
    with pytest.raises(ValueError, match=f"multiple of 8, for GroupNorm's 8 groups, but is {width}"):
        MNIST_CNN(2, width)


def train_step(encoder: nn.Module, images: torch.Tensor) -> list[torch.Tensor]:
    encoder.zero_grad()
    features = encoder(images)
    features.square().sum().backward()
    return [features.detach(), *(parameter.grad.clone() for parameter in encoder.parameters())]


def test_channels_last_changes_nothing_but_rounding() -> None:
    torch.manual_seed(0)
    encoder = MNIST_CNN(2, 16).double()
    images = torch.rand(4, 2, 8, 8, dtype=torch.float64)
    plain = train_step(encoder, images)
    last = train_step(encoder.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last))
    for mine, its in zip(last, plain, strict=True):
        torch.testing.assert_close(mine, its)


@pytest.mark.cpu_bfloat16
def test_under_autocast() -> None:
    torch.manual_seed(0)
    encoder = MNIST_CNN(2, 16)
    images = torch.rand(4, 2, 8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = encoder(images)
    assert not torch.equal(features.float(), encoder(images))
    torch.testing.assert_close(features.float(), encoder(images), rtol=0.05, atol=0.05)


def test_compiles_as_one_graph() -> None:
    torch.manual_seed(0)
    encoder = MNIST_CNN(2, 16)
    images = torch.rand(4, 2, 8, 8)
    torch.compiler.reset()
    compiled = torch.compile(encoder, fullgraph=True, backend="aot_eager")
    for mine, its in zip(train_step(compiled, images), train_step(encoder, images), strict=True):
        torch.testing.assert_close(mine, its)


def test_config_builds_the_same_network() -> None:
    encoder = encoder_from_config(MNIST_CNN(2, 16).config())
    assert isinstance(encoder, MNIST_CNN)
    assert [p.shape for p in encoder.parameters()] == [p.shape for p in MNIST_CNN(2, 16).parameters()]


def test_same_seed_same_weights_as_before_it_was_an_encoder() -> None:
    torch.manual_seed(0)
    first = next(MNIST_CNN(2, 16).parameters())
    torch.manual_seed(0)
    assert torch.equal(first, nn.Conv2d(2, 16, 3, padding=1).weight)
