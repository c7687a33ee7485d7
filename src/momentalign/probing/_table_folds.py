"""What of a table is fitted, what is scored, and what its labels are."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign.data import Table, holdout_indices
from momentalign.data._labels import classes_of, is_quantity

TASKS = ("auto", "classification", "regression")

Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to fit and rows to score; `name` says what is left out."""

    name: str
    train: Rows
    test: Rows


def take_targets(table: Table, task: str, target: str) -> tuple[tuple[str, ...] | None, NDArray[Any]]:
    """Labels as classes or numbers.

    Args:
        table: The table.
        task: `"classification"`, `"regression"`, or `"auto"`: the latter for many different numbers.
        target: Name of the column, for messages.

    Returns:
        Names of the classes and an index for each row; or None and a number for each row.

    Raises:
        ValueError: Text or infinities in the target of a regression.
    """
    y = table.target
    if task == "auto":
        task = "regression" if is_quantity(y) else "classification"
    if task == "regression":
        try:
            numbers = y.astype(np.float64)
        except (ValueError, TypeError):
            text = next(value for value in y if not isinstance(value, int | float))
            raise ValueError(
                f"The target of a regression should hold numbers, but '{target}' holds '{text}'."
            ) from None
        if not np.isfinite(numbers).all():
            raise ValueError(f"The target of a regression should be finite, but '{target}' has infinite values.")
        return None, numbers
    texts, codes = classes_of(y)
    names = list(table.names.get("target", ()))
    if not set(texts) <= set(names):
        names = texts
    places = np.array([names.index(text) for text in texts], dtype=np.int64)
    return tuple(names), places[codes]


def make_folds(table: Table, test_domain: str | None, seed: int) -> tuple[list[Fold], list[str]]:
    """Decide what is fitted and what is scored.

    A named test domain is scored by a fit on the others; a split `"test"`, else `"val"`, by a fit on `"train"`. Without
    either, each of three or more domains is left out in turn; of two, a fifth of the rows is held out.

    Args:
        table: The table.
        test_domain: Domain to hold out.
        seed: Of what is held out at random.

    Returns:
        The folds, and what was decided, a sentence each.
    """
    domains, splits = table.domains, table.splits
    fits = np.ones(len(domains), dtype=bool)
    lines = []
    if splits is not None:
        fits = np.isin(splits, ("train", "in"))
        sizes = ", ".join(f"{name} {count}" for name, count in zip(*np.unique(splits, return_counts=True), strict=True))
        lines.append(f"Splits: {sizes}; fitted on '{'in' if 'in' in splits else 'train'}' only.")
    scored = next((name for name in ("test", "val") if splits is not None and name in splits), None)
    if test_domain is not None:
        out = domains == test_domain
        if scored is not None:
            out &= splits == scored
        fits = fits & (domains != test_domain)
        where = f"'{test_domain}'" + ("" if scored is None else f" in split '{scored}'")
        lines.append(f"Trained on {int(fits.sum())} rows of the other domains, tested on {int(out.sum())} of {where}.")
        return [Fold(test_domain, np.flatnonzero(fits), np.flatnonzero(out))], lines
    if scored is not None:
        out = np.asarray(splits == scored)
        lines.append(f"Trained on {int(fits.sum())} rows, tested on the {int(out.sum())} of split '{scored}'.")
        return [Fold(scored, np.flatnonzero(fits), np.flatnonzero(out))], lines
    names = np.unique(domains)
    if len(names) > 2:
        lines.append(
            f"No test domain was named: each domain is left out in turn, then {int(fits.sum())} rows of all are fitted."
        )
        return [_without(str(name), fits, domains == name) for name in names], lines
    lines.append("No test domain was named and there are no three to leave one out of: a fifth of each is held out.")
    out = np.zeros(len(domains), dtype=bool)
    for place, name in enumerate(names):
        rows = np.flatnonzero(domains == name)
        out[rows[holdout_indices(len(rows), seed, place)[1].numpy()]] = True
    return [_without("held-out rows", fits, out)], lines


def _without(name: str, fits: NDArray[np.bool_], out: NDArray[np.bool_]) -> Fold:
    return Fold(name, np.flatnonzero(fits & ~out), np.flatnonzero(out))
