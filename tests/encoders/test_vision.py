"""Vision encoders of the real architectures, tiny ones saved to folders and real ones built from a configuration."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from momentalign.encoders import (
    Encoder,
    HuggingFaceVision,
    ImagePreprocessing,
    encoder_from_config,
    encoder_from_folder,
)
from tests.encoders.models import pixels, save_model

pytestmark = pytest.mark.slow

# What the features should be, written with the library's own output.
EXPECTED: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "vit": lambda model, images: model(images).last_hidden_state[:, 0],
    "dinov2": lambda model, images: model(images).last_hidden_state[:, 0],
    "clip": lambda model, images: model.visual_projection(model.vision_model(images).pooler_output),
    "siglip": lambda model, images: model.vision_model(images).pooler_output,
    "mobilenet_v2": lambda model, images: model(images).last_hidden_state.mean((2, 3)),
    "resnet": lambda model, images: model(images).last_hidden_state.mean((2, 3)),
}
WIDTHS = {"vit": 16, "dinov2": 16, "clip": 12, "siglip": 16, "mobilenet_v2": 320, "resnet": 16}
names = pytest.mark.parametrize("name", EXPECTED)


@names
def test_features_are_the_stated_output_of_the_model(name: str, tmp_path: Path) -> None:
    model = save_model(name, tmp_path)
    encoder = encoder_from_folder(tmp_path).eval()
    inputs = encoder.preprocessing.to_inputs(pixels(3, 32))
    features = encoder(inputs)
    assert features.shape == (3, encoder.num_features) == (3, WIDTHS[name])
    torch.testing.assert_close(features, EXPECTED[name](model, inputs))
    assert (features.std(0) > 0).any()


@names
def test_comes_back_from_its_configuration_and_weights(name: str, tmp_path: Path) -> None:
    save_model(name, tmp_path, mean=0.3).half().save_pretrained(tmp_path)
    encoder = encoder_from_folder(tmp_path).eval()
    assert {parameter.dtype for parameter in encoder.parameters()} == {torch.float32}
    again = encoder_from_config(json.loads(json.dumps(encoder.config()))).eval()
    inputs = encoder.preprocessing.to_inputs(pixels(2, 32))
    assert not torch.allclose(again(inputs), encoder(inputs))
    again.load_state_dict(encoder.state_dict())
    torch.testing.assert_close(again(inputs), encoder(inputs))
    assert again.preprocessing.config() == encoder.preprocessing.config()
    assert (again.num_features, again.features) == (encoder.num_features, encoder.features)


@names
def test_every_parameter_that_trains_reaches_the_features(name: str, tmp_path: Path) -> None:
    save_model(name, tmp_path)
    encoder = encoder_from_folder(tmp_path).train()
    encoder(encoder.preprocessing.to_inputs(pixels(4, 32))).square().sum().backward()
    without = [k for k, parameter in encoder.named_parameters() if parameter.requires_grad and parameter.grad is None]
    assert without == []
    frozen = [k for k, parameter in encoder.named_parameters() if not parameter.requires_grad]
    assert frozen == (["model.embeddings.mask_token"] if name == "dinov2" else [])


@pytest.mark.parametrize(
    ("architecture", "width", "output"),
    [
        ({"model_type": "vit", "hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}, 384, "cls"),
        (
            {
                "model_type": "clip",
                "projection_dim": 512,
                "vision_config": {"patch_size": 32, "hidden_size": 768, "projection_dim": 512},
            },
            512,
            "projection",
        ),
    ],
    ids=["ViT-S/16", "CLIP ViT-B/32"],
)
def test_real_sizes_from_a_configuration(architecture: dict[str, Any], width: int, output: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(architecture))
    encoder = encoder_from_folder(tmp_path, weights=False).eval()
    assert isinstance(encoder, HuggingFaceVision)
    assert (encoder.num_features, encoder.features, encoder.preprocessing.size) == (width, output, 224)
    with torch.no_grad():
        assert encoder(encoder.preprocessing.to_inputs(pixels(1, 224))).shape == (1, width)
    assert "random" in " ".join(encoder.notes)
    if output == "cls":
        assert sum(parameter.numel() for parameter in encoder.parameters()) == 21_665_664  # as published, without head


@pytest.mark.cpu_bfloat16
def test_under_autocast(tmp_path: Path) -> None:
    save_model("vit", tmp_path)
    encoder = encoder_from_folder(tmp_path).eval()
    inputs = encoder.preprocessing.to_inputs(pixels(2, 32))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = encoder(inputs)
    assert not torch.equal(rounded, encoder(inputs))
    torch.testing.assert_close(rounded.float(), encoder(inputs), rtol=0.1, atol=0.1)


def test_channels_last(tmp_path: Path) -> None:
    save_model("mobilenet_v2", tmp_path)
    encoder = encoder_from_folder(tmp_path).eval()
    inputs = encoder.preprocessing.to_inputs(pixels(2, 32))
    expected = encoder(inputs)
    encoder.to(memory_format=torch.channels_last)
    last = inputs.to(memory_format=torch.channels_last)
    torch.testing.assert_close(encoder(last), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("settings", "size", "pixel", "value"),
    [
        ({"size": 48, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}, 48, 255, 1.0),
        (
            {"size": {"shortest_edge": 40}, "do_center_crop": True, "crop_size": {"height": 32, "width": 32}},
            32,
            0,
            None,
        ),
        ({"size": {"height": 48, "width": 48}, "do_normalize": False}, 48, 255, 1.0),
        # EfficientNet's: pixels in [-1, 1] before the mean, and the deviation divided by twice.
        (
            {
                "size": [32, 32],
                "rescale_factor": 1 / 127.5,
                "rescale_offset": True,
                "include_top": True,
                "image_mean": [0.2] * 3,
                "image_std": [0.5] * 3,
            },
            32,
            255,
            (1.0 - 0.2) / 0.5 / 0.5,
        ),
    ],
)
def test_size_and_normalisation_are_the_models_own(
    settings: dict[str, Any], size: int, pixel: int, value: float | None, tmp_path: Path
) -> None:
    save_model("resnet", tmp_path, mean=None)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    encoder = encoder_from_folder(tmp_path)
    assert encoder.preprocessing.size == size
    assert encoder.notes == ()
    if value is not None:
        white = torch.full((1, 3, size, size), pixel, dtype=torch.uint8)
        torch.testing.assert_close(encoder.preprocessing.to_inputs(white), torch.full((1, 3, size, size), value))


def test_assumed_normalisation_is_said(tmp_path: Path) -> None:
    save_model("vit", tmp_path, mean=None)
    encoder = encoder_from_folder(tmp_path)
    assert encoder.preprocessing.config() == ImagePreprocessing(32).config()
    assert "32 × 32" in encoder.notes[0]
    assert "ImageNet" in encoder.notes[0]


def test_another_size_where_the_model_takes_it(tmp_path: Path) -> None:
    save_model("resnet", tmp_path / "resnet")
    assert encoder_from_folder(tmp_path / "resnet", size=64).preprocessing.size == 64
    save_model("vit", tmp_path / "vit")
    with pytest.raises(ValueError, match="'vit' does not take images of 64 × 64"):
        encoder_from_folder(tmp_path / "vit", size=64)


def test_refuses_pickled_weights(tmp_path: Path) -> None:
    save_model("vit", tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"model.safetensors, but has none. Weights in pytorch_model.bin can run code"):
        encoder_from_folder(tmp_path)


def test_refuses_weights_that_leave_part_of_the_encoder_random(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    save_model("vit", tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    gone = next(name for name in weights if name.startswith("layernorm."))
    rest = {name: tensor for name, tensor in weights.items() if name != gone}
    save_file(rest, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=f"should fill the whole encoder, but 1 are missing: {gone}"):
        encoder_from_folder(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", "{", "should be JSON"),
        ("config.json", "[]", "a JSON object"),
        ("config.json", "{}", "model_type"),
        ("config.json", '{"model_type": "made-up"}', "no model of type 'made-up', and code from the hub is not run"),
        ("config.json", '{"model_type": "align"}', "can only be taken from clip and siglip"),
        ("config.json", '{"model_type": "vit", "hidden_size": 24}', r"do not fit its config\.json"),
        ("model.safetensors", "no weights", r"do not fit its config\.json"),
        (
            "adapter_config.json",
            '{"base_model_name_or_path": "someone/else"}',
            "a whole model, but has adapter",
        ),
        ("preprocessor_config.json", '{"size": {"height": 32, "width": 48}}', "should be square"),
    ],
)
def test_refuses_what_is_damaged_or_needs_code(file: str, content: str, message: str, tmp_path: Path) -> None:
    save_model("vit", tmp_path)
    (tmp_path / file).write_text(content)
    with pytest.raises(ValueError, match=message):
        encoder_from_folder(tmp_path)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"auto_map": {"AutoModel": "modeling.MadeUp"}}, "'auto_map'"),
        ({"attn_implementation": "someone/kernel"}, "'attn_implementation' to 'someone/kernel'"),
        ({"_attn_implementation": "someone/kernel"}, "'_attn_implementation'"),
        ({"_attn_implementation_internal": "someone/kernel:layer"}, "'_attn_implementation_internal'"),
        ({"attn_implementation": "flash_attention_2"}, "'attn_implementation'"),  # falls back to a kernel of the hub
        ({"attn_implementation": {"": "someone/kernel"}}, "'attn_implementation'"),
        ({"vision_config": {"attn_implementation": "someone/kernel"}}, "'attn_implementation'"),
        ({"parts": [{"trust_remote_code": True}]}, "'trust_remote_code'"),
        ({"quantization_config": {"quant_method": "someone"}}, "'quantization_config'"),
        ({"use_kernels": True}, "'use_kernels'"),
        ({"transformers_weights": "pytorch_model.bin"}, "'transformers_weights'"),
    ],
)
def test_refuses_fields_that_load_code(fields: dict[str, Any], named: str, tmp_path: Path) -> None:
    save_model("vit", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | fields))
    (tmp_path / "modeling.py").write_text("raise SystemExit('code was run')")
    for weights in (True, False):
        with pytest.raises(ValueError, match=f"needs no other code, but sets {named}"):
            encoder_from_folder(tmp_path, weights=weights)
    described = {"kind": "huggingface-vision", "architecture": config | fields}
    with pytest.raises(ValueError, match=f"needs no other code, but sets {named}"):
        encoder_from_config(described)


def test_harmless_values_of_fields_that_can_load_code(tmp_path: Path) -> None:
    save_model("vit", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    more = {"attn_implementation": "eager", "quantization_config": None, "auto_map": {}, "use_kernels": False}
    (tmp_path / "config.json").write_text(json.dumps(config | more))
    assert encoder_from_folder(tmp_path).num_features == 16


def _statistics(encoder: torch.nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in encoder.named_buffers() if "running" in name}


def _train(encoder: Encoder, steps: int = 2) -> None:
    """A few steps in training mode, with evaluation in between as the loop has it."""
    encoder.eval()
    network = torch.nn.Sequential(encoder, torch.nn.Linear(encoder.num_features, 2)).train()
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    for _ in range(steps):
        loss = network(encoder.preprocessing.to_inputs(pixels(4, 32))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet"])
def test_pretrained_batch_norm_keeps_its_statistics_and_trains_its_scale(name: str, tmp_path: Path) -> None:
    save_model(name, tmp_path)
    encoder = encoder_from_folder(tmp_path)
    before, weights = _statistics(encoder), copy.deepcopy(encoder.state_dict())
    assert before
    _train(encoder)
    assert encoder.training
    for key, tensor in _statistics(encoder).items():
        assert torch.equal(tensor, before[key]), key
    scales = [f"{key}.weight" for key, module in encoder.named_modules() if isinstance(module, torch.nn.BatchNorm2d)]
    assert any(not torch.equal(encoder.state_dict()[key], weights[key]) for key in scales)


@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet"])
def test_random_batch_norm_is_trained_as_usual(name: str, tmp_path: Path) -> None:
    save_model(name, tmp_path)
    encoder = encoder_from_folder(tmp_path, weights=False)
    before = _statistics(encoder)
    _train(encoder)
    assert all(not torch.equal(tensor, before[key]) for key, tensor in _statistics(encoder).items())


@pytest.mark.parametrize("weights", [True, False])
def test_statistics_are_kept_after_a_round_trip_as_before_it(weights: bool, tmp_path: Path) -> None:
    save_model("resnet", tmp_path)
    encoder = encoder_from_folder(tmp_path, weights=weights)
    again = encoder_from_config(json.loads(json.dumps(encoder.config())))
    again.load_state_dict(encoder.state_dict())
    copied = copy.deepcopy(encoder)
    for one in (again, copied):
        before = _statistics(one)
        _train(one)
        assert all(torch.equal(tensor, before[key]) == weights for key, tensor in _statistics(one).items())
