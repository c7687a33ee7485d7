"""Data of the protocol: fixed features with class, domain, group and split of each row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from momentalign._datasets import SPLIT_NAMES
from momentalign._table_spec import inherit_spec, table_spec
from momentalign._validation import check_blanks, check_labels
from momentalign.tables import encode_classes, read_table

Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ProbeData:
    """Fixed features with class, domain, group and split (0 train, 1 val, 2 test) of each row, as indices.

    Made by :meth:`from_arrays` and :meth:`from_file`.

    Example:
        >>> X = np.arange(16.0).reshape(8, 2)
        >>> y, background = [0, 1] * 4, ["land", "land", "water", "water"] * 2
        >>> ProbeData.from_arrays(X, y, background, ["train"] * 4 + ["val", "val", "test", "test"])
        ProbeData('arrays', 4 + 2 + 2 rows of 2 features, 2 classes, 2 domains, 4 groups)
    """

    name: str
    features: NDArray[np.floating]
    targets: Codes
    domains: Codes
    groups: Codes
    splits: Codes
    classes: tuple[str, ...]
    domain_names: tuple[str, ...]
    group_names: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def from_arrays(
        cls,
        features: ArrayLike,
        targets: ArrayLike,
        domains: ArrayLike,
        splits: ArrayLike,
        groups: ArrayLike | None = None,
        *,
        name: str = "arrays",
        names: Mapping[str, Sequence[str]] | None = None,
        notes: Sequence[str] = (),
    ) -> Self:
        """Make the data from arrays with labels of any kind.

        Args:
            features: Finite numbers, shape (n, d).
            targets: Classes, strings or numbers, shape (n,).
            domains: Domains, strings or numbers, shape (n,).
            splits: `"train"`, `"val"` and `"test"`, or 0, 1 and 2, shape (n,).
            groups: Groups, shape (n,); None takes the pairs of class and domain.
            name: Printed in tables.
            names: Names of classes, domains and groups in the order of their indices, by `"target"`, `"domain"` and
                `"group"`; without them labels are numbered as they sort.
            notes: Changes made to the rows, a sentence each.

        Returns:
            The data.

        Raises:
            ValueError: Lengths that differ, values that are not finite, missing labels, names that differ by blanks
                only, a split without rows, or training rows of one domain or one class only.
        """
        X = np.asarray(features)
        if X.ndim != 2 or 0 in X.shape or not np.issubdtype(X.dtype, np.number):
            raise ValueError(f"'features' should be numbers of shape (n, d), but are {X.dtype} of shape {X.shape}.")
        X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        bad = ~np.isfinite(X).all(1)
        if bad.any():
            raise ValueError(
                f"'features' should be finite, but {int(bad.sum())} rows have missing or infinite values, first row "
                f"{int(bad.argmax())}. 'momentalign probe' fills missing values."
            )
        columns = {"targets": targets, "domains": domains, "splits": splits, "groups": groups}
        arrays = {key: np.asarray(column) for key, column in columns.items() if column is not None}
        for key, column in arrays.items():
            check_labels(key, column, len(X), "features")
        known = names or {}
        classes, y = encode_classes(arrays["targets"], known.get("target", ()))
        places, e = encode_classes(arrays["domains"], known.get("domain", ()))
        if groups is None:
            pairs, g = np.unique(y * len(places) + e, return_inverse=True)
            group_names = tuple(f"{classes[p // len(places)]}, {places[p % len(places)]}" for p in pairs)
        else:
            group_names, g = encode_classes(arrays["groups"], known.get("group", ()))
        for key, labels in (("targets", classes), ("domains", places), ("groups", group_names)):
            check_blanks(key, labels)
        codes = _split_codes(arrays["splits"])
        for code, split in enumerate(SPLIT_NAMES):
            if code not in codes:
                raise ValueError(f"{name} should have rows of splits train, val and test, but has none of '{split}'.")
        for what, column, labels in (("domains", e, places), ("classes", y, classes)):
            present = np.unique(column[codes == 0])
            if len(present) < 2:
                raise ValueError(
                    f"The training rows of {name} should be of at least two {what}, but all are of "
                    f"'{labels[present[0]]}'."
                )
        return cls(name, X, y, e, g.astype(np.int64), codes, classes, places, group_names, tuple(notes))

    @classmethod
    def from_file(cls, path: str | Path, **reading: str | None) -> Self:
        """Read a table, see :func:`momentalign.tables.read_table`; by default with the columns of `embed`.

        There has to be a column of splits. Without one of groups these are the pairs of class and domain. Columns of
        text raise a ValueError.
        """
        table = read_table(inherit_spec(table_spec(path, **reading), {"split": "split"}))
        text = [str(name) for name in table.features.columns if table.features[name].dtype.kind not in "fiub"]
        if text:
            raise ValueError(
                f"The columns of {table.path.name} should be numbers, but '{text[0]}' is not. 'momentalign probe' "
                "takes categories and missing values."
            )
        single = all(dtype.kind == "f" and dtype.itemsize <= 4 for dtype in table.features.dtypes)
        features = table.features.to_numpy(dtype=np.float32 if single else np.float64)
        assert table.splits is not None
        return cls.from_arrays(
            features,
            table.target,
            table.domains,
            table.splits,
            table.groups,
            name=str(path),
            names=table.names,
            notes=table.notes,
        )

    def rows(self, split: str) -> NDArray[np.intp]:
        """Indices of a split's rows."""
        return np.flatnonzero(self.splits == SPLIT_NAMES.index(split))

    def count_groups(self, split: str) -> dict[str, int]:
        """Rows of each group in a split, by its name; groups without rows are left out."""
        sizes = np.bincount(self.groups[self.rows(split)]).tolist()
        return {name: size for name, size in zip(self.group_names, sizes, strict=False) if size}

    def __repr__(self) -> str:
        sizes = " + ".join(str(len(self.rows(split))) for split in SPLIT_NAMES)
        return (
            f"{type(self).__name__}({self.name!r}, {sizes} rows of {self.features.shape[1]} features, "
            f"{len(self.classes)} classes, {len(self.domain_names)} domains, {len(self.group_names)} groups)"
        )


def _split_codes(column: NDArray[Any]) -> Codes:
    known = {name: code for code, split in enumerate(SPLIT_NAMES) for name in (split, str(code))}
    labels, codes = np.unique(column.astype(str), return_inverse=True)
    unknown = [label for label in labels if label not in known]
    if unknown:
        raise ValueError(f"'splits' should hold train, val and test, or 0, 1 and 2, but hold '{unknown[0]}'.")
    return np.array([known[label] for label in labels], dtype=np.int64)[codes]
