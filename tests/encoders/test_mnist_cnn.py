import pytest
import torch
import torch.nn.functional as F
from torch import nn

from momentalign.encoders import MNIST_CNN


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
