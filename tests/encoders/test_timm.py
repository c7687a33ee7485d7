"""Vision transformers as timm publishes them, against a plain rendering of timm's forward pass."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from momentalign.encoders import encoder_from_config, encoder_from_folder
from tests.encoders.models import pixels

WIDTH, HEADS, DEPTH, PATCH, SIZE = 128, 2, 2, 16, 32


def clip_weights() -> dict[str, Tensor]:
    """As of CLIP's image tower: a norm before the blocks, patches without a bias."""
    norm = {"norm_pre.weight": torch.linspace(0.5, 1.5, WIDTH), "norm_pre.bias": torch.linspace(-0.1, 0.1, WIDTH)}
    return {name: tensor for name, tensor in weights().items() if name != "patch_embed.proj.bias"} | norm


def weights() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = {
        "cls_token": (1, 1, WIDTH),
        "pos_embed": (1, 1 + (SIZE // PATCH) ** 2, WIDTH),
        "patch_embed.proj.weight": (WIDTH, 3, PATCH, PATCH),
        "patch_embed.proj.bias": (WIDTH,),
        "norm.weight": (WIDTH,),
        "norm.bias": (WIDTH,),
        "head.weight": (10, WIDTH),
        "head.bias": (10,),
    }
    for k in range(DEPTH):
        layers = {"norm1": (WIDTH,), "attn.qkv": (3 * WIDTH, WIDTH), "attn.proj": (WIDTH, WIDTH), "norm2": (WIDTH,)}
        layers |= {"mlp.fc1": (2 * WIDTH, WIDTH), "mlp.fc2": (WIDTH, 2 * WIDTH)}
        for name, shape in layers.items():
            shapes |= {f"blocks.{k}.{name}.weight": shape, f"blocks.{k}.{name}.bias": shape[:1]}
    return {name: 0.1 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def forward(w: dict[str, Tensor], images: Tensor) -> Tensor:
    """Patches, class token, positions; blocks with the norm first; norm; class token."""

    def linear(x: Tensor, name: str) -> Tensor:
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, (WIDTH,), w[f"{name}.weight"], w[f"{name}.bias"], eps=1e-5 if clip else 1e-6)

    clip = "norm_pre.weight" in w
    x = F.conv2d(images, w["patch_embed.proj.weight"], w.get("patch_embed.proj.bias"), stride=PATCH)
    x = torch.cat([w["cls_token"].expand(len(x), -1, -1), x.flatten(2).transpose(1, 2)], dim=1) + w["pos_embed"]
    x = norm(x, "norm_pre") if clip else x
    for k in range(DEPTH):
        n, t, _ = x.shape
        qkv = linear(norm(x, f"blocks.{k}.norm1"), f"blocks.{k}.attn.qkv").view(n, t, 3, HEADS, WIDTH // HEADS)
        q, key, v = qkv.permute(2, 0, 3, 1, 4)
        attended = ((q @ key.transpose(2, 3)) / (WIDTH // HEADS) ** 0.5).softmax(-1) @ v
        x = x + linear(attended.transpose(1, 2).reshape(n, t, WIDTH), f"blocks.{k}.attn.proj")
        x = x + linear(F.gelu(linear(norm(x, f"blocks.{k}.norm2"), f"blocks.{k}.mlp.fc1")), f"blocks.{k}.mlp.fc2")
    return norm(x, "norm")[:, 0]


@pytest.mark.parametrize("make", [weights, clip_weights])
def test_equals_timms_forward_pass(tmp_path: Path, make: Callable[[], dict[str, Tensor]]) -> None:
    pytest.importorskip("timm", reason="needs timm, which is no development requirement")
    published = {"input_size": [3, SIZE, SIZE], "mean": [0.5] * 3, "std": [0.5] * 3, "num_classes": 10}
    shape = {"img_size": SIZE, "embed_dim": WIDTH, "depth": DEPTH, "num_heads": HEADS, "mlp_ratio": 2}
    name = f"vit_base_patch16_{'clip_' if make is clip_weights else ''}224"
    config = {"architecture": name, "model_args": shape, "pretrained_cfg": published, "num_classes": 10}
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(make(), tmp_path / "model.safetensors")
    encoder = encoder_from_folder(tmp_path).eval()
    images = pixels(3, SIZE)
    inputs = encoder.preprocessing.to_inputs(images)
    torch.testing.assert_close(inputs, images / 127.5 - 1)
    torch.testing.assert_close(encoder(inputs), forward(make(), inputs), rtol=1e-4, atol=1e-4)
    again = encoder_from_config(encoder.config()).eval()
    again.load_state_dict(encoder.state_dict())
    torch.testing.assert_close(again(inputs), encoder(inputs))


def test_without_timm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "vit_small_patch16_224"}))
    with pytest.raises(ModuleNotFoundError, match=r"momentalign\[timm\]"):
        encoder_from_folder(tmp_path)
