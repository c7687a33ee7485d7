"""Plain fine-tuning on PACS with DomainBed's split and without this package: `... DATA TEST_DOMAIN TRIAL >> FILE`."""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from transformers import AutoModel

DOMAINS, STEPS, SIDE = ("art_painting", "cartoon", "photo", "sketch"), 1001, 112
root, test, trial = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
device, rng = torch.device("cuda" if torch.cuda.is_available() else "cpu"), np.random.default_rng(trial)
mean, std = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]], device=device).view(2, 3, 1, 1)
torch.manual_seed(trial)
encoder = AutoModel.from_pretrained(root / "encoders/mobilenet_v2").to(device).eval()  # batch norm keeps its statistics
head = torch.nn.Linear(1280, 7).to(device)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=5e-5)
images, splits = {}, {}
for number, domain in enumerate(DOMAINS):
    classes = enumerate(sorted((root / "PACS" / domain).iterdir()))
    files = [(file, label) for label, folder in classes for file in sorted(folder.iterdir())]
    images[domain] = [(Image.open(file).convert("RGB").resize((SIDE, SIDE)), label) for file, label in files]
    digest = hashlib.md5(str((trial, number)).encode(), usedforsecurity=False).hexdigest()
    order = np.random.RandomState(int(digest, 16) % 2**31).permutation(len(files))
    splits[domain] = {"out": order[: len(files) // 5], "in": order[len(files) // 5 :]}


def _augment(image: Image.Image) -> Image.Image:  # DomainBed's, without changes of hue
    size = np.minimum(SIDE, SIDE * np.sqrt(rng.uniform(0.7, 1) * rng.uniform(0.75, 1.33) ** np.array([1, -1])))
    image = image.resize((SIDE, SIDE), box=(*(corner := rng.uniform(0, SIDE - size)), *(corner + size)))
    image = ImageOps.mirror(image) if rng.random() < 0.5 else image
    for change in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        image = change(image).enhance(rng.uniform(0.7, 1.3))
    return ImageOps.grayscale(image).convert("RGB") if rng.random() < 0.1 else image


def _predict(rows: list[tuple[str, int]], *, augmented: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    pairs = [images[domain][k] for domain, k in rows]
    pixels = np.stack([np.array(_augment(image) if augmented else image) for image, _ in pairs])
    inputs = (torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2) / 255 - mean) / std
    return head(encoder(inputs).pooler_output), torch.tensor([label for _, label in pairs], device=device)


curve, right = [], {}
for step in range(STEPS):
    drawn = [(domain, k) for domain in DOMAINS if domain != test for k in rng.choice(splits[domain]["in"], 32)]
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(*_predict(drawn, augmented=True)).backward()
    optimizer.step()
    if step % 50 == 0 or step == STEPS - 1:
        for domain, rows in ((name, splits[name]["in" if name == test else "out"]) for name in DOMAINS):
            with torch.no_grad():
                found = [_predict([(domain, k) for k in part]) for part in np.array_split(rows, len(rows) // 128)]
            right[domain] = torch.cat([logits.argmax(1) == targets for logits, targets in found]).float().mean().item()
        curve.append((sum(right.values()) - right[test], right[test]))
best = max(curve, key=lambda pair: pair[0])
print(json.dumps({"test_domain": test, "trial": trial, "training-domain": best[1], "last": curve[-1][1]}))
