"""Domain data sets: named domains, each with named splits, and optional groups.

A data set is a :class:`DomainDataset`; :func:`load_dataset` makes one from a name, a folder or a table. Small data are
tensors. Images, sentences and rows of tables are :class:`Items`, which an encoder's preprocessing reads.
``ColoredDigits`` and ``RotatedDigits`` need no download.
"""

from momentalign._datasets import EMBEDDED
from momentalign._seeds import seed_hash
from momentalign._table_spec import table_spec
from momentalign.data._batches import DomainBatchSampler
from momentalign.data._convert import domain_dataset, table_dataset
from momentalign.data._dataset import DomainDataset, Split, holdout_indices, split_in_out
from momentalign.data._digits import (
    ColoredDigits,
    ColoredMNIST,
    RotatedDigits,
    RotatedMNIST,
    color_domains,
    rotate,
    rotate_domains,
)
from momentalign.data._fetch import DownloadError, fetch
from momentalign.data._folders import read_image_folder, without_bad_files
from momentalign.data._group_sets import GroupSet, draw_group_splits, make_group_set
from momentalign.data._items import ImageFiles, Items, TableRows, Texts
from momentalign.data._load import dataset_names, load_dataset
from momentalign.data._sources import (
    Source,
    SourceFile,
    checksum_list,
    data_folder,
    dataset_path,
    find_source,
    is_complete,
)
from momentalign.data._verify import ByteProgress, verify

__all__ = [
    "EMBEDDED",
    "ByteProgress",
    "ColoredDigits",
    "ColoredMNIST",
    "DomainBatchSampler",
    "DomainDataset",
    "DownloadError",
    "GroupSet",
    "ImageFiles",
    "Items",
    "RotatedDigits",
    "RotatedMNIST",
    "Source",
    "SourceFile",
    "Split",
    "TableRows",
    "Texts",
    "checksum_list",
    "color_domains",
    "data_folder",
    "dataset_names",
    "dataset_path",
    "domain_dataset",
    "draw_group_splits",
    "fetch",
    "find_source",
    "holdout_indices",
    "is_complete",
    "load_dataset",
    "make_group_set",
    "read_image_folder",
    "rotate",
    "rotate_domains",
    "seed_hash",
    "split_in_out",
    "table_dataset",
    "table_spec",
    "verify",
    "without_bad_files",
]
