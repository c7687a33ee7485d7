"""What only an accelerator can show: the small network is captured, and encoders agree with the CPU."""

from pathlib import Path

import pytest
import torch

from momentalign.encoders import MNIST_CNN, ImagePreprocessing, embed, encoder_from_folder
from momentalign.tables import read_table
from tests.encoders.models import image_dataset, pixels, save_model

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("bf16", [False, True])
def test_a_step_of_the_small_network_is_captured(bf16: bool) -> None:
    torch.manual_seed(0)
    encoder = MNIST_CNN(2).cuda().to(memory_format=torch.channels_last)
    images = torch.rand(64, 2, 28, 28, device="cuda").to(memory_format=torch.channels_last)

    def step() -> torch.Tensor:
        encoder.zero_grad(set_to_none=False)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=bf16):
            features = encoder(images)
        features.float().square().sum().backward()
        return features.detach()

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            expected = step()
    torch.cuda.synchronize()
    gradients = [parameter.grad.clone() for parameter in encoder.parameters()]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    graph.replay()
    torch.testing.assert_close(captured, expected, rtol=1e-2, atol=1e-2)
    for parameter, gradient in zip(encoder.parameters(), gradients, strict=True):
        scale = gradient.abs().max().item()
        torch.testing.assert_close(parameter.grad, gradient, rtol=2e-2, atol=2e-2 * scale)


@pytest.mark.parametrize("name", ["vit", "clip", "dinov2", "resnet", "mobilenet_v2", "bert"])
def test_features_agree_with_the_cpu(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # deep random networks make much of rounding
    from momentalign.data import Texts

    save_model(name, tmp_path)
    encoder = encoder_from_folder(tmp_path).eval()
    raw = encoder.preprocessing.open(Texts(["a man runs."])) if name == "bert" else pixels(2, 32)
    expected = encoder(encoder.preprocessing.to_inputs(raw))
    encoder.cuda()
    torch.testing.assert_close(
        encoder(encoder.preprocessing.to_inputs(raw.cuda())).cpu(), expected, rtol=1e-2, atol=1e-2
    )


def test_normalisation_can_be_captured() -> None:
    preprocessing = ImagePreprocessing(8)
    raw = pixels(2, 8).cuda()
    expected = preprocessing.to_inputs(raw)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = preprocessing.to_inputs(raw)
    graph.replay()
    torch.testing.assert_close(captured, expected)


def test_augmentation_follows_the_seeds_of_device_and_host() -> None:
    pytest.importorskip("kornia.augmentation")
    preprocessing = ImagePreprocessing(32)
    raw = pixels(8, 32).cuda()
    results = []
    for device in (0, 0, 1):
        torch.manual_seed(0)
        torch.cuda.manual_seed(device)
        results.append(preprocessing.augment(raw))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python 3.12 and 3.13, where threads run
def test_embed(tmp_path: Path) -> None:
    import numpy as np

    save_model("resnet", tmp_path / "model")
    data = image_dataset(tmp_path / "images", per_class=5)
    encoder = encoder_from_folder(tmp_path / "model")
    here = read_table(embed(data, encoder, tmp_path / "cpu.parquet")).features.to_numpy()
    there = read_table(embed(data, encoder, tmp_path / "cuda.parquet", device="cuda", workers=2)).features.to_numpy()
    np.testing.assert_allclose(there, here, rtol=1e-2, atol=1e-2)
