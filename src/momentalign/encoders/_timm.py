"""Convert timm's vision transformers to Hugging Face format."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from momentalign.encoders import _huggingface as hf


class _Names(NamedTuple):
    """Hugging Face's names of timm's weights: of whole tensors, of the blocks and of the layers in a block."""

    model: str
    plain: Mapping[str, str]
    blocks: str
    in_block: Mapping[str, str]
    attention: tuple[str, str, str]


_VIT = _Names(
    "a plain vision transformer",
    {
        "cls_token": "embeddings.cls_token",
        "pos_embed": "embeddings.position_embeddings",
        "patch_embed.proj.weight": "embeddings.patch_embeddings.projection.weight",
        "patch_embed.proj.bias": "embeddings.patch_embeddings.projection.bias",
        "norm.weight": "layernorm.weight",
        "norm.bias": "layernorm.bias",
    },
    "encoder.layer",
    {
        "norm1": "layernorm_before",
        "norm2": "layernorm_after",
        "attn.proj": "attention.output.dense",
        "mlp.fc1": "intermediate.dense",
        "mlp.fc2": "output.dense",
    },
    ("attention.attention.query", "attention.attention.key", "attention.attention.value"),
)
_CLIP = _Names(
    "CLIP's image tower",
    {
        "cls_token": "vision_model.embeddings.class_embedding",
        "pos_embed": "vision_model.embeddings.position_embedding.weight",
        "patch_embed.proj.weight": "vision_model.embeddings.patch_embedding.weight",
        "norm_pre.weight": "vision_model.pre_layrnorm.weight",
        "norm_pre.bias": "vision_model.pre_layrnorm.bias",
        "norm.weight": "vision_model.post_layernorm.weight",
        "norm.bias": "vision_model.post_layernorm.bias",
    },
    "vision_model.encoder.layers",
    {
        "norm1": "layer_norm1",
        "norm2": "layer_norm2",
        "attn.proj": "self_attn.out_proj",
        "mlp.fc1": "mlp.fc1",
        "mlp.fc2": "mlp.fc2",
    },
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
)
_CLIP_NORM = "norm_pre.weight"
"""Weights of the norm before the blocks, which the image tower of CLIP has."""
_BLOCK = re.compile(r"blocks\.(\d+)\.(.+)\.(weight|bias)")


def is_timm(config: Mapping[str, Any]) -> bool:
    """Whether a `config.json` is timm's."""
    return "model_type" not in config and "architecture" in config


def convert_timm(folder: Path, target: Path, *, weights: bool = True) -> None:
    """Convert a ViT of timm's (`vit_small_patch16_224` and similar) to Hugging Face format in folder `target`.

    A ViT that began as CLIP's image tower (`vit_base_patch16_clip_384` and similar), fine-tuned on classes or not,
    becomes one with the identity as its projection: its features are the class token after the last norm.

    Heads are taken to be 64 wide; the classifier is left out. The shapes are read from the weights, which are written
    too if `weights` is True.
    """
    from safetensors.torch import load_file, save_file

    config = hf.read_config(folder / hf.CONFIG_FILE)
    name = str(config["architecture"])
    if not name.startswith("vit_"):
        raise ValueError(
            f"{folder} holds timm's '{name}', but of timm's models only plain vision transformers (vit_…) can be read. "
            "Use a copy in Hugging Face format."
        )
    if not (folder / "model.safetensors").is_file():
        raise ValueError(f"{folder} should have weights in model.safetensors, but has none.")
    tensors = load_file(folder / "model.safetensors")
    clip = _CLIP_NORM in tensors
    converted = _rename(tensors, _CLIP if clip else _VIT, name)
    if clip:
        _reshape_clip(converted)
    published = config.get("pretrained_cfg", config)
    architecture = _architecture(tensors, int(published["input_size"][-1]), clip)
    architecture.save_pretrained(target)
    settings = {
        "do_resize": True,
        "size": {"height": architecture.image_size, "width": architecture.image_size},
        "image_mean": list(published["mean"]),
        "image_std": list(published["std"]),
    }
    (target / "preprocessor_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    if weights:
        save_file(converted, target / "model.safetensors", metadata={"format": "pt"})


def _architecture(tensors: Mapping[str, Tensor], size: int, clip: bool) -> Any:
    width, patch = tensors["patch_embed.proj.weight"].shape[0], tensors["patch_embed.proj.weight"].shape[-1]
    shape = {
        "hidden_size": width,
        "num_hidden_layers": 1 + max(int(m[1]) for name in tensors if (m := _BLOCK.fullmatch(name))),
        "num_attention_heads": width // 64,
        "intermediate_size": tensors["blocks.0.mlp.fc1.weight"].shape[0],
        "image_size": size,
        "patch_size": patch,
    }
    library = hf.transformers()
    if clip:
        return library.CLIPVisionConfig(**shape, projection_dim=width, hidden_act="gelu", layer_norm_eps=1e-5)
    return library.ViTConfig(**shape, layer_norm_eps=1e-6)


def _rename(tensors: Mapping[str, Tensor], names: _Names, architecture: str) -> dict[str, Tensor]:
    converted: dict[str, Tensor] = {}
    for key, tensor in tensors.items():
        match = _BLOCK.fullmatch(key)
        if key in names.plain:
            converted[names.plain[key]] = tensor
        elif match and match[2] in names.in_block:
            converted[f"{names.blocks}.{match[1]}.{names.in_block[match[2]]}.{match[3]}"] = tensor
        elif match and match[2] == "attn.qkv":
            for part, rows in zip(names.attention, tensor.chunk(3), strict=True):
                # The three share one storage, which safetensors does not allow.
                converted[f"{names.blocks}.{match[1]}.{part}.{match[3]}"] = rows.clone()
        elif not key.startswith("head."):
            raise ValueError(f"timm's '{architecture}' has weights that {names.model} lacks: {key}.")
    return converted


def _reshape_clip(converted: dict[str, Tensor]) -> None:
    """Drop the batch dimension of CLIP's token and positions, and add the identity as its projection."""
    token, positions = _CLIP.plain["cls_token"], _CLIP.plain["pos_embed"]
    converted[token] = converted[token].flatten()
    converted[positions] = converted[positions].squeeze(0)
    converted["visual_projection.weight"] = torch.eye(len(converted[token]))
