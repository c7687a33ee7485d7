"""Folds of a table: which rows are fitted and which are scored."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from momentalign._seeds import holdout_rows
from momentalign._types import Integers
from momentalign.tables._table import Table


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to fit and rows to score; `name` is what is held out."""

    name: str
    train: Integers
    test: Integers


def make_folds(table: Table, test_domain: str | None, seed: int) -> tuple[list[Fold], list[str]]:
    """Choose the folds, and describe them in one sentence each.

    A named test domain is scored by a fit on the others; a split `"test"`, else `"val"`, by a fit on `"train"`. Without
    either, each of three or more domains is left out in turn; of two, a fifth of the rows is held out.
    """
    domains, splits, train = table.domains, table.splits, table.training_rows
    notes = []
    if splits is not None:
        sizes = ", ".join(f"{name} {count}" for name, count in zip(*np.unique(splits, return_counts=True), strict=True))
        notes.append(f"Splits: {sizes}; fitted on '{'in' if 'in' in splits else 'train'}' only.")
    scored = next((name for name in ("test", "val") if splits is not None and name in splits), None)
    if test_domain is not None:
        test = domains == test_domain
        if scored is not None:
            test &= splits == scored
        train = train & (domains != test_domain)
        where = f"'{test_domain}'" + ("" if scored is None else f" in split '{scored}'")
        notes.append(f"Trained on {train.sum()} rows of the other domains, tested on {test.sum()} of {where}.")
        return [_fold(test_domain, train, test)], notes
    if scored is not None:
        test = np.asarray(splits == scored)
        notes.append(f"Trained on {train.sum()} rows, tested on the {test.sum()} of split '{scored}'.")
        return [_fold(scored, train, test)], notes
    names = np.unique(domains)
    if len(names) > 2:
        notes.append(
            f"No test domain given: each domain is left out in turn, then {train.sum()} rows of all are fitted."
        )
        return [_fold(str(name), train, domains == name) for name in names], notes
    notes.append("No test domain given, and fewer than three domains: a fifth of each domain is held out.")
    test = np.zeros(len(domains), dtype=bool)
    for index, name in enumerate(names):
        rows = np.flatnonzero(domains == name)
        test[rows[holdout_rows(len(rows), seed, index)[1]]] = True
    return [_fold("held-out rows", train, test)], notes


def _fold(name: str, train: NDArray[np.bool_], test: NDArray[np.bool_]) -> Fold:
    return Fold(name, np.flatnonzero(train & ~test), np.flatnonzero(test))
