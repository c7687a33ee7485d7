"""The rows of a feature file: their order, columns and digests."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from momentalign.data import DomainDataset, Items, Split
from momentalign.encoders._base import Encoder

_IRRELEVANT = ("source", "transformers", "keep_statistics")
"""Entries of an encoder's configuration that do not change its features in evaluation mode."""
_DRAWN = {"in", "out"}
"""Splits drawn by a trial; others were published with the data."""


def encoder_digest(encoder: Encoder) -> str:
    """Digest of architecture, preprocessing and weights."""
    config = {name: value for name, value in encoder.config().items() if name not in _IRRELEVANT}
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Rows of one domain, or of one split of it; `domain` is an index."""

    domain: int
    split: str | None
    rows: Split


def dataset_parts(dataset: DomainDataset, splits: bool | None = None) -> list[FeatureRows]:
    """Divide a data set into its non-empty parts, domain by domain.

    With `splits` a part is one split; None keeps only splits that were published with the data. "in" and "out" belong
    to a trial of the DomainBed protocol: they are joined and the rows sorted by name, so that every trial gives the
    same file.
    """
    keep = not set(dataset.split_names) <= _DRAWN if splits is None else splits
    parts = []
    for domain, rows in enumerate(dataset.domains.values()):
        if keep:
            parts += [FeatureRows(domain, split, part) for split, part in rows.items() if len(part)]
        elif present := [part for part in rows.values() if len(part)]:
            parts.append(FeatureRows(domain, None, _sort_by_name(_join(present))))
    if not parts:
        raise ValueError(f"{dataset.name} should have rows, but has none.")
    return parts


def row_columns(parts: Sequence[FeatureRows], dataset: DomainDataset) -> dict[str, NDArray[np.generic]]:
    """Columns of a feature file beside the features, shape (n,) each.

    "y", "domain" and, if there are any, "split", "group" and "file". Classes, domains and groups are indices.
    """
    columns: dict[str, NDArray[np.generic]] = {
        "y": torch.cat([part.rows.targets for part in parts]).cpu().numpy(),
        "domain": np.repeat([part.domain for part in parts], [len(part.rows) for part in parts]),
    }
    if all(part.split is not None for part in parts):
        columns["split"] = np.repeat([str(part.split) for part in parts], [len(part.rows) for part in parts])
    if dataset.group_names is not None:
        groups = [part.rows.groups for part in parts if part.rows.groups is not None]
        columns["group"] = torch.cat(groups).cpu().numpy()
    if all(isinstance(part.rows.inputs, Items) for part in parts):
        columns["file"] = np.array([name for part in parts for name in part.rows.inputs.names])  # type: ignore[union-attr]
    return columns


def rows_digest(parts: Sequence[FeatureRows], columns: dict[str, NDArray[np.generic]]) -> str:
    """Digest of labels, names and the content of rows that are in memory."""
    digest = hashlib.sha256()
    for name, column in columns.items():
        digest.update(name.encode())
        digest.update(column.tobytes())
    for part in parts:
        inputs = part.rows.inputs
        content = inputs.content() if isinstance(inputs, Items) else inputs.detach().cpu().numpy().tobytes()
        digest.update(content)
    return digest.hexdigest()


def _join(parts: Sequence[Split]) -> Split:
    if len(parts) == 1:
        return parts[0]
    inputs: list[Any] = [part.inputs for part in parts]
    groups = [part.groups for part in parts if part.groups is not None]
    return Split(
        type(inputs[0]).joined(inputs) if isinstance(inputs[0], Items) else torch.cat(inputs),
        torch.cat([part.targets for part in parts]),
        torch.cat(groups) if groups else None,
    )


def _sort_by_name(rows: Split) -> Split:
    if not isinstance(rows.inputs, Items):
        return rows
    names = rows.inputs.names
    return rows.rows(torch.tensor(sorted(range(len(names)), key=names.__getitem__), dtype=torch.long))
