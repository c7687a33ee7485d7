"""Domain data sets: named domains, each with named splits, and groups where there are any.

A data set is a :class:`DomainDataset`; :func:`load_dataset` makes one from a name, a folder or a table. Small data are
tensors. Images, sentences and rows of tables are :class:`Items`, which an encoder's preprocessing reads.
``ColoredDigits`` and ``RotatedDigits`` need no download.
"""

from momentalign._seeds import seed_hash
from momentalign.data._colored import ColoredDigits, ColoredMNIST, color_domains
from momentalign.data._dataset import DomainDataset, Split
from momentalign.data._fetch import fetch
from momentalign.data._folders import read_image_folder, without_bad_files
from momentalign.data._from_table import table_dataset
from momentalign.data._from_torch import domain_dataset
from momentalign.data._items import ImageFiles, Items, Texts
from momentalign.data._load import dataset_names, load_dataset
from momentalign.data._root import data_folder
from momentalign.data._rotated import RotatedDigits, RotatedMNIST, rotate, rotate_domains
from momentalign.data._sources import EMBEDDED, find_source
from momentalign.data._splits import holdout_indices, split_in_out
from momentalign.data._table_rows import TableRows
from momentalign.data._verify import dataset_path, is_complete, verify

__all__ = [
    "EMBEDDED",
    "ColoredDigits",
    "ColoredMNIST",
    "DomainDataset",
    "ImageFiles",
    "Items",
    "RotatedDigits",
    "RotatedMNIST",
    "Split",
    "TableRows",
    "Texts",
    "color_domains",
    "data_folder",
    "dataset_names",
    "dataset_path",
    "domain_dataset",
    "fetch",
    "find_source",
    "holdout_indices",
    "is_complete",
    "load_dataset",
    "read_image_folder",
    "rotate",
    "rotate_domains",
    "seed_hash",
    "split_in_out",
    "table_dataset",
    "verify",
    "without_bad_files",
]
