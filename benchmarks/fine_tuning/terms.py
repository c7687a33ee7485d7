"""Terms of CMA in the first step of fine-tuning a pretrained encoder, by scaling.

    python -m benchmarks.fine_tuning.terms --images FOLDER --out terms.jsonl

FOLDER has the images of PACS, as `domain/class/image`. The steps are those of `momentalign train` on a few images of
each domain, all with the same batch.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.fine_tuning.settings import STUDIES
from benchmarks.records import Line
from momentalign._files import atomic_write
from momentalign.bench import environment
from momentalign.data import DomainDataset, load_dataset
from momentalign.training import make_config, run

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("published", {"scaling": "none"}),
    "published": ("published", {}),
    "safe": ("safe", {}),
}
"""Preset and changed hyper-parameters of each step; the first has no default weights."""
METRICS = ("cross_entropy", "gradient", "hessian")


def first_terms(data: DomainDataset, test_domain: str, encoder: str | None, rows: int) -> Iterator[Line]:
    """One record for each case: loss and unweighted terms of the first step, and the weights."""
    few = data.map_splits(lambda split: split.rows(torch.randperm(len(split), generator=_generator())[:rows]))
    versions = environment(torch.device("cpu"))
    device = versions.pop("device")
    for name, (preset, changed) in CASES.items():
        config = make_config(
            few, "cma", test_domains=[test_domain], hparams=changed, steps=1, encoder=encoder, preset=preset
        )
        records = run(config, None, data=few, accelerator="cpu")
        found = {record["metric"]: record["value"] for record in records if record["domain"] is None}
        yield {
            "case": name,
            "dataset": data.name,
            **{metric: found[metric] for metric in METRICS},
            "hparams": dict(config.hparams),
            "device": device,
            "versions": versions,
        }


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fine_tuning.terms", description=__doc__)
    parser.add_argument("--images", type=Path, required=True, help="folder domain/class/image")
    parser.add_argument("--test-domain", default="sketch")
    parser.add_argument("--rows", type=int, default=48, help="images of each domain and split (default: 48)")
    parser.add_argument("--encoder", help="default: the study's, in the folder MOMENTALIGN_DATA")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    folder = Path(os.environ.get("MOMENTALIGN_DATA", "data"), STUDIES["pacs"].encoder or "")
    encoder = given.encoder or f"{folder}?size=112"
    lines = list(first_terms(load_dataset(given.images), given.test_domain, encoder, given.rows))
    for line in lines:
        print(f"{line['case']}: " + ", ".join(f"{metric} {line[metric]:.4g}" for metric in METRICS))
    atomic_write(given.out, "".join(json.dumps(line) + "\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
