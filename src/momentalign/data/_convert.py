"""Data sets from tables and from torch data sets."""

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from momentalign.data._dataset import DomainDataset, Split, split_in_out
from momentalign.data._items import TableRows
from momentalign.tables import Table, encode_targets


def table_dataset(table: Table, *, name: str, trial: int = 0, holdout: float = 0.2) -> DomainDataset:
    """Make a data set of a table.

    Features are not encoded here: an encoder's preprocessing learns medians, categories and variances from the rows
    that it is trained on, never from those of a test domain. The table's splits are kept; without them every domain is
    divided into "in" and "out". A target of more than 20 distinct numbers makes it a regression, with float targets and
    `num_classes` 1.

    Domains are in order of first appearance. `trial` seeds the split, and `holdout` is the share of each domain in its
    "out" split.
    """
    classes, labels = encode_targets(table.target, column_name=table.columns["target"])
    targets = torch.from_numpy(labels).long() if classes is not None else torch.from_numpy(labels).float()
    groups, group_names = None, None
    if table.groups is not None:
        names, indices = np.unique(table.groups, return_inverse=True)
        groups, group_names = torch.from_numpy(indices).long(), names.tolist()
    rows = Split(TableRows(table.features), targets, groups)
    domains = {domain: rows.rows(_where(table.domains == domain)) for domain in dict.fromkeys(table.domains.tolist())}
    if table.splits is None:
        divided = split_in_out(domains, trial, fraction=holdout)
    else:
        splits = [split for split in ("train", "val", "test", "in", "out") if split in table.splits]
        divided = {
            domain: {split: rows.rows(_where((table.domains == domain) & (table.splits == split))) for split in splits}
            for domain in domains
        }
    return DomainDataset(
        name,
        1 if classes is None else len(classes),
        divided,
        classes,
        group_names,
        "table",
        table.notes,
    )


def _where(chosen: NDArray[np.bool_]) -> Tensor:
    return torch.from_numpy(np.flatnonzero(chosen))


def domain_dataset(
    name: str,
    domains: Iterable[tuple[str, Dataset[Any]]],
    *,
    trial: int = 0,
    num_classes: int | None = None,
    holdout: float = 0.2,
    classes: Sequence[str] | None = None,
    training_recipe: str | None = None,
) -> DomainDataset:
    """Make a data set of map-style torch data sets, one per domain.

    All rows are read into memory; images that do not fit are better left in folders.

    Args:
        domains: Name and data set of each domain. A data set has a length, and its rows are pairs of an input, a tensor
            or array of the same shape everywhere, and a class index. Floating-point inputs are kept as float32.
        trial: The trial's seed, of the split.
        num_classes: One more than the largest index if not given.
        holdout: Share of each domain in its "out" split.
        training_recipe: See :class:`DomainDataset`.

    Raises:
        ValueError: No domains, a duplicate name, rows of different shapes, or targets that are not classes.

    Example:
        >>> from torch.utils.data import TensorDataset
        >>> rows = TensorDataset(torch.zeros(10, 3), torch.arange(10) % 2)
        >>> domain_dataset("sites", [("Zurich", rows), ("Basel", rows)])
        DomainDataset('sites', 2 classes; Zurich: 8 in + 2 out, Basel: 8 in + 2 out)
    """
    rows: dict[str, Split] = {}
    for domain, dataset in domains:
        if domain in rows:
            raise ValueError(f"'domains' should have different names, but {domain!r} occurs twice.")
        rows[domain] = _read(domain, dataset)
    if not rows:
        raise ValueError("'domains' should have at least one pair of a name and a data set, but is empty.")
    shapes = {domain: tuple(split.tensor.shape[1:]) for domain, split in rows.items()}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{shape} in {domain}" for domain, shape in shapes.items())
        raise ValueError(f"Rows should have the same shape in all domains, but have {listed}.")
    largest = max(int(split.targets.max()) for split in rows.values())
    if num_classes is None:
        num_classes = largest + 1 if classes is None else len(classes)
    if largest >= num_classes:
        raise ValueError(
            f"Targets should be below the number of classes ({num_classes}), but the largest is {largest}."
        )
    divided = split_in_out(rows, trial, fraction=holdout)
    return DomainDataset(name, num_classes, divided, classes, training_recipe=training_recipe)


def _read(domain: str, dataset: Dataset[Any]) -> Split:
    try:
        rows = [dataset[index] for index in range(len(dataset))]  # type: ignore[arg-type]
        inputs = torch.stack([torch.as_tensor(values) for values, _ in rows])
        targets = torch.tensor([operator.index(label) for _, label in rows])
        if targets.min() < 0:
            raise ValueError(f"the class {targets.min()} is negative")
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"The data set of {domain!r} should have a length, and as rows pairs of a tensor of one shape and a class "
            f"0, 1, …: {error}."
        ) from None
    return Split(inputs.float() if inputs.is_floating_point() else inputs, targets)
