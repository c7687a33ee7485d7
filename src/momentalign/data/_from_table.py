"""A table as a domain data set."""

import numpy as np
import torch
from numpy.typing import NDArray

from momentalign.data._dataset import DomainDataset, Split
from momentalign.data._splits import split_in_out
from momentalign.data._table_rows import TableRows
from momentalign.tables import Table, encode_targets


def table_dataset(table: Table, *, name: str, trial: int = 0, holdout: float = 0.2) -> DomainDataset:
    """Make a data set of a table.

    The features stay as they are: what the columns mean, medians and variances is learned by an encoder's
    preprocessing from the rows that it is trained on, never from those of a test domain.

    Where the table says which split a row is in, that is kept; otherwise every domain is divided into "in" and "out".
    A target of more than 20 different numbers makes it a regression, with float targets and `num_classes` 1.

    Args:
        table: What :func:`read_table` gives.
        name: What the data set is called.
        trial: The trial's seed, of the split.
        holdout: Share of each domain in its "out" split.

    Returns:
        The data set; domains are in the order in which the table first names them, and its notes say what was done.
    """
    classes, labels = encode_targets(table.target)
    targets = torch.from_numpy(labels).long() if classes is not None else torch.from_numpy(labels).float()
    groups, group_names = None, None
    if table.groups is not None:
        group_names, indices = np.unique(table.groups, return_inverse=True)
        groups = torch.from_numpy(indices).long()
    rows = Split(TableRows(table.features), targets, groups)
    domains = {domain: rows.rows(_where(table.domains == domain)) for domain in dict.fromkeys(table.domains.tolist())}
    if table.splits is None:
        divided = split_in_out(domains, trial, fraction=holdout)
    else:
        names = [split for split in ("train", "val", "test", "in", "out") if split in table.splits]
        divided = {
            domain: {split: rows.rows(_where((table.domains == domain) & (table.splits == split))) for split in names}
            for domain in domains
        }
    return DomainDataset(
        name,
        1 if classes is None else len(classes),
        divided,
        classes,
        None if group_names is None else [str(group) for group in group_names],
        "table",
        table.notes,
    )


def _where(chosen: NDArray[np.bool_]) -> torch.Tensor:
    return torch.from_numpy(np.flatnonzero(chosen))
