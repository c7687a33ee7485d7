"""The paper's three sets with groups as small folders of their real format: every group in every split."""

import itertools
import json
from pathlib import Path

import numpy as np
from PIL import Image

from tests.data.files import write_csv

SPLITS = {0: 6, 1: 4, 2: 4}
"""Rows of each group by the number of the split: train, val, test."""


def write_picture(path: Path, label: int, attribute: int, rng: np.random.Generator) -> None:
    """Noise whose colour says the label, and less clearly the attribute."""
    pixels = rng.integers(0, 90, size=(40, 36, 3), dtype=np.uint8)
    pixels[..., label] += 120
    pixels[:20, :, 2] += np.uint8(60 * attribute)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def write_waterbirds(root: Path) -> Path:
    folder = root / "waterbird_complete95_forest2water2"
    rng, rows = np.random.default_rng(0), []
    for (split, number), y, place in itertools.product(SPLITS.items(), (0, 1), (0, 1)):
        for _ in range(number):
            kind = ("Laysan_Albatross", "American_Crow")[1 - y]
            name = f"{y + 1:03d}.{kind}/{kind}_{len(rows):04d}_{len(rows) + 500}.jpg"
            write_picture(folder / name, y, place, rng)
            rows.append([len(rows) + 1, name, y, split, place, f"/o/ocean/{len(rows):08d}.jpg"])
    write_csv(folder / "metadata.csv", ("img_id", "img_filename", "y", "split", "place", "place_filename"), rows)
    return folder


def write_celeba(root: Path) -> Path:
    """As the authors distribute it: tables of text, a column for each attribute, 1 and -1."""
    folder = root / "celeba"
    rng, attributes, partition = np.random.default_rng(1), [], []
    names = ("5_o_Clock_Shadow", "Blond_Hair", "Male", "Young")
    for (split, number), blond, male in itertools.product(SPLITS.items(), (0, 1), (0, 1)):
        for _ in range(number):
            name = f"{len(partition) + 1:06d}.jpg"
            write_picture(folder / "img_align_celeba" / name, blond, male, rng)
            values = (-1, 2 * blond - 1, 2 * male - 1, 1)
            attributes.append(f"{name} " + " ".join(f"{value:2d}" for value in values))
            partition.append(f"{name} {split}")
    text = "\n".join([str(len(attributes)), " ".join(names) + " ", *attributes]) + "\n"
    (folder / "list_attr_celeba.txt").write_text(text)
    (folder / "list_eval_partition.txt").write_text("\n".join(partition) + "\n")
    return folder


def write_multinli(root: Path) -> Path:
    """Three files of pairs, one after the other counted by the table of splits."""
    folder = root / "multinli_1.0"
    folder.mkdir(parents=True)
    labels = ("contradiction", "entailment", "neutral")
    pairs: dict[str, list[str]] = {"train": [], "dev_matched": [], "dev_mismatched": []}
    table = []
    for (split, number), (code, label), negated in itertools.product(SPLITS.items(), enumerate(labels), (0, 1)):
        for k in range(number):
            part = list(pairs)[split]
            second = ("a man sleeps.", "a woman runs.", "a man runs.")[code] if k % 3 else "a woman sleeps."
            fields = {"gold_label": label, "pairID": f"{part}{len(pairs[part])}n", "genre": "fiction"}
            fields |= {"sentence1": "A man runs.", "sentence2": f"No {second}" if negated else second}
            pairs[part].append(json.dumps(fields))
            table.append((code, negated, split))
    for part, lines in pairs.items():
        (folder / f"multinli_1.0_{part}.jsonl").write_text("\n".join(lines) + "\n")
    # Splits come in the order of the files here, so row k of the table is row k of the files joined.
    rows = [(k, *row) for k, row in enumerate(table)]
    write_csv(folder / "metadata_random.csv", ("", "gold_label", "sentence2_has_negation", "split"), rows)
    return folder
