"""Models of the real architectures, tiny and random, written to folders in Hugging Face format."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from momentalign.data import DomainDataset, ImageFiles, Split, Texts

VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "man", "woman", "sleeps", "runs", "no", "##body", ".")

_TRANSFORMER = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
_SMALL_IMAGES = {"image_size": 32, "patch_size": 16}

ARCHITECTURES: Mapping[str, Any] = {
    "vit": lambda: transformers.ViTModel(transformers.ViTConfig(**_TRANSFORMER, **_SMALL_IMAGES)),
    "dinov2": lambda: transformers.Dinov2Model(transformers.Dinov2Config(**_TRANSFORMER, **_SMALL_IMAGES)),
    "clip": lambda: transformers.CLIPModel(
        transformers.CLIPConfig(
            vision_config={**_TRANSFORMER, **_SMALL_IMAGES},
            text_config={**_TRANSFORMER, "vocab_size": 20, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
            projection_dim=12,
        )
    ),
    "mobilenet_v2": lambda: transformers.MobileNetV2Model(
        transformers.MobileNetV2Config(image_size=32, depth_multiplier=0.25, min_depth=8, finegrained_output=False)
    ),
    "resnet": lambda: transformers.ResNetModel(
        transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    ),
    "siglip": lambda: transformers.SiglipModel(
        transformers.SiglipConfig(
            vision_config={**_TRANSFORMER, **_SMALL_IMAGES},
            text_config={**_TRANSFORMER, "vocab_size": 20, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
        )
    ),
    "bert": lambda: transformers.BertModel(
        transformers.BertConfig(**_TRANSFORMER, vocab_size=len(VOCABULARY), max_position_embeddings=24)
    ),
    "distilbert": lambda: transformers.DistilBertModel(
        transformers.DistilBertConfig(dim=16, n_layers=2, n_heads=2, hidden_dim=32, vocab_size=len(VOCABULARY))
    ),
}


def save_model(name: str, folder: Path, *, mean: float | None = 0.5, size: int = 32) -> Any:
    """Write a model to a folder, text models with a tokenizer, vision models with their normalisation unless None."""
    torch.manual_seed(0)
    model = ARCHITECTURES[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # position embeddings and class tokens start at zero or nearly so
            parameter.add_(0.05 * torch.randn_like(parameter))
    if name in ("mobilenet_v2", "resnet"):
        _calibrate(model)
    model.save_pretrained(folder)
    if name in ("bert", "distilbert"):
        save_tokenizer(folder)
    elif mean is not None:
        settings = {"do_resize": True, "size": {"height": size, "width": size}, "do_normalize": True}
        settings |= {"image_mean": [mean] * 3, "image_std": [0.25] * 3}
        (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return model


def _calibrate(model: Any) -> None:
    """Set the norms' statistics to those of random images: left at 0 and 1, a deep random network ignores its input."""
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0
    with torch.no_grad():
        model.train()(torch.randn(16, 3, 32, 32))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.eval()


def save_tokenizer(folder: Path) -> None:
    """BERT's tokenizer with a vocabulary of a dozen pieces, as the files that old models have."""
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}')


def write_images(root: Path, per_class: int = 3, *, size: int = 40) -> Path:
    """A folder root/domain/class/file of two domains and two classes, told apart by their colour."""
    from PIL import Image

    generator = torch.Generator().manual_seed(0)
    for domain in ("day", "night"):
        for k, label in enumerate(("cat", "dog")):
            (root / domain / label).mkdir(parents=True)
            for number in range(per_class):
                pixels = torch.randint(0, 100, (size, size, 3), generator=generator, dtype=torch.uint8)
                pixels[..., k] += 120
                Image.fromarray(pixels.numpy()).save(root / domain / label / f"{number}.png")
    return root


def image_dataset(root: Path, per_class: int = 3, *, size: int = 40) -> DomainDataset:
    """The same as a data set, without a split by trials."""
    write_images(root, per_class, size=size)
    domains = {}
    for domain in ("day", "night"):
        paths = sorted((root / domain).rglob("*.png"))
        targets = torch.tensor([int(path.parent.name == "dog") for path in paths])
        domains[domain] = {"in": Split(ImageFiles(paths, root), targets)}
    return DomainDataset("animals", 2, domains, ("cat", "dog"))


def text_dataset(rows: int = 6) -> DomainDataset:
    """Pairs of sentences with groups and published splits."""
    first = ["A man sleeps.", "A woman runs.", "No man runs."]
    second = ["nobody sleeps.", "a woman sleeps and a man runs and a man runs.", "."]

    def split(n: int, start: int) -> Split:
        order = [(start + k) % 3 for k in range(n)]
        texts = Texts([first[k] for k in order], [second[k] for k in order], [f"{start}-{k}" for k in range(n)])
        targets = torch.tensor(order)
        return Split(texts, targets, 2 * targets + start % 2)

    domains = {name: {"train": split(rows, start), "test": split(2, start)} for start, name in enumerate("ab")}
    groups = [f"{label}, {domain}" for label in "xyz" for domain in "ab"]
    return DomainDataset("pairs", 3, domains, "xyz", groups)


def pixels(n: int, size: int) -> Tensor:
    return torch.randint(0, 256, (n, 3, size, size), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
