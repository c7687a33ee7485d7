"""Domain data sets: named domains, each with named splits, held as tensors.

A data set is a :class:`DomainDataset`. ``ColoredDigits`` needs no download: it colours the 8×8 digits that
scikit-learn bundles by the recipe of ColoredMNIST, which :func:`color_domains` applies to any other digits.
A :class:`Table` is rows with a label and a domain, read from a file.
"""

from momentalign.data._dataset import DomainDataset, Split
from momentalign.data._digits import ColoredDigits, color_domains
from momentalign.data._splits import holdout_indices, seed_hash, split_in_out
from momentalign.data._tables import Table, feature_matrix, read_table

__all__ = [
    "ColoredDigits",
    "DomainDataset",
    "Split",
    "Table",
    "color_domains",
    "feature_matrix",
    "holdout_indices",
    "read_table",
    "seed_hash",
    "split_in_out",
]
