"""Groups of rows, rows that are held out, and rows that decide, as `fit` is given them."""

import warnings
from typing import Any, ClassVar, NamedTuple

import numpy as np
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_sample_weight

from momentalign._types import Array, Integers
from momentalign._validation import check_blanks, check_choice, check_column, check_number
from momentalign.linear import Scored, split_groups
from momentalign.sklearn._base import LogitClassifier, encode_labels

GROUP_SELECTIONS = ("worst_group", "worst_class", "train_groups")
"""What decides: worst group or class of held-out rows, or worst group of training rows."""


class GroupRows(NamedTuple):
    """Validated arguments of `fit`: groups and domains as indices, −1 where a row's group is missing.

    Rows of weight 0 are left out; `kept` are the indices of the others among the `given` rows.
    """

    features: NDArray[np.floating]
    targets: NDArray[np.int64]
    groups: NDArray[np.int64]
    domains: NDArray[np.int64] | None
    validation: NDArray[np.bool_] | None
    weights: Array | None
    kept: NDArray[np.intp]
    given: int

    def as_given(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A mask of these rows as one of the given rows."""
        whole = np.zeros(self.given, dtype=bool)
        whole[self.kept] = mask
        return whole


class GroupClassifier(LogitClassifier):
    """A linear classifier that is fitted with groups."""

    # Unlike for the estimators with domains: a request has to be stated.
    __metadata_request__fit: ClassVar = {"groups": None}

    selection: str | None

    groups_: NDArray[Any]
    group_sizes_: NDArray[np.int64]

    def _take_rows(
        self,
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None,
        domains: ArrayLike | None,
        validation: ArrayLike | None,
        sample_weight: ArrayLike | None,
        *,
        partial: bool,
        optional: bool = False,
    ) -> GroupRows:
        """Validate the arguments of `fit`; set `groups_` and `group_sizes_`.

        Groups may be missing in some rows where `partial`, and altogether where `optional`.
        """
        features, targets = self._validate_targets(X, y)
        codes = attributes = weights = None
        if domains is not None:
            labels, codes = encode_labels(domains, len(features))
            attributes = labels[codes]
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, features, dtype=np.float64, ensure_non_negative=True)
        if optional and groups is None and domains is None:
            self.groups_, units = np.empty(0, dtype=object), np.full(len(features), -1)
        else:
            units = self._take_groups(groups, targets, attributes, partial=partial)
        self._check_weights(targets, units, weights)
        mask = None if validation is None else _check_mask(validation, weights, len(features))
        kept = np.arange(len(features))
        rows = GroupRows(features, targets, units, codes, mask, weights, kept, len(features))
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            rows = GroupRows(
                features[kept],
                targets[kept],
                units[kept],
                None if codes is None else codes[kept],
                None if mask is None else mask[kept],
                weights[kept],
                kept,
                len(features),
            )
        self.group_sizes_ = np.bincount(rows.groups[rows.groups >= 0], minlength=len(self.groups_))
        return rows

    def _take_groups(
        self, groups: ArrayLike | None, targets: NDArray[np.int64], domains: NDArray[Any] | None, *, partial: bool
    ) -> NDArray[np.int64]:
        """Set `groups_`, and return the index of each row's group.

        Without groups they are the pairs of class and domain, or, with a warning, the classes.
        """
        if groups is not None:
            self.groups_, codes = encode_labels(groups, len(targets), name="groups", partial=partial)
            check_blanks("groups", self.groups_.tolist())
        elif domains is not None:
            pairs = [f"{self.classes_[target]}|{domain}" for target, domain in zip(targets, domains, strict=True)]
            self.groups_, codes = encode_labels(pairs, len(targets), name="groups")
        else:
            warnings.warn(self._without_groups(), UserWarning, stacklevel=4)
            self.groups_, codes = self.classes_, targets
        return codes

    def _without_groups(self) -> str:
        """Warning about a fit without groups, with the lines that pass them."""
        name = type(self).__name__
        request = ".set_fit_request(groups=True)" if sklearn.get_config()["enable_metadata_routing"] else ""
        return (
            f"Without 'groups' {name} takes the classes as groups. Pass the group of each row: "
            f"fit(X, y, groups=group); in cross-validation: "
            f"cross_val_score({name}(...){request}, X, y, params={{'groups': group}})."
        )

    def _scored_rows(self, rows: GroupRows, held_out: NDArray[np.bool_] | None) -> Scored:
        """Rows that decide, by `selection`; None is the worst group, or, without any groups, the worst class.

        They are the held-out rows, the other ones for `"train_groups"`; all where no row is held out.
        """
        by = self.selection or ("worst_group" if len(self.groups_) else "worst_class")
        if by != "worst_class" and not len(self.groups_):
            raise ValueError(
                f"selection='{by}' needs the groups of the rows that decide, but 'groups' is None. Pass them to 'fit', "
                "or use selection='worst_class', which needs labels only."
            )
        every = np.ones(len(rows.targets), dtype=bool) if held_out is None else held_out
        if by == "train_groups":
            kept = np.flatnonzero((every if held_out is None or held_out.all() else ~held_out) & (rows.groups >= 0))
            if not len(kept):
                raise ValueError("selection='train_groups' needs groups of training rows, but all of them are missing.")
            return Scored(kept, rows.groups[kept])
        chosen = np.flatnonzero(every)
        if by == "worst_class":
            return Scored(chosen, rows.targets[chosen])
        self._check_known(
            rows,
            chosen,
            "whose worst group decides",
            "Use selection='train_groups', which needs the groups of training rows only, or selection='worst_class', "
            "which needs none; or drop these rows.",
        )
        return Scored(chosen, rows.groups[chosen])

    def _check_known(self, rows: GroupRows, index: NDArray[np.intp], kind: str, advice: str) -> None:
        """Raise a ValueError for missing groups among rows of some kind."""
        missing = index[rows.groups[index] < 0]
        if len(missing):
            raise ValueError(
                f"'groups' should hold a label for every row {kind}, but {len(missing)} are missing, first in row "
                f"{rows.kept[missing[0]]}. {advice}"
            )

    def _check_sizes(self, codes: Integers, least: int, kind: str, advice: str) -> None:
        """Raise a ValueError that names the groups with fewer than `least` rows among those of some kind."""
        sizes = np.bincount(codes, minlength=len(self.groups_))
        small = [
            f"{label!r} has {'no row' if size == 0 else 'one row' if size == 1 else f'{size} rows'}"
            for label, size in zip(self.groups_.tolist(), sizes, strict=True)
            if size < least
        ]
        if small:
            raise ValueError(
                f"Every group should have at least {least} {kind} rows, but {', '.join(small)}. {advice}, or merge "
                f"{'it' if len(small) == 1 else 'them'} with another group."
            )

    def _check_weights(self, targets: Integers, groups: Integers, weights: Array | None) -> None:
        """Raise a ValueError that names classes or groups all of whose rows have weight 0."""
        if weights is None:
            return
        for kind, labels, codes in (("class", self.classes_, targets), ("group", self.groups_, groups)):
            empty = np.setdiff1d(codes[codes >= 0], codes[weights > 0])
            if len(empty):
                raise ValueError(
                    f"Every {kind} should have rows with a 'sample_weight' above 0, but {labels.tolist()[empty[0]]!r} "
                    "has none. Leave its rows out."
                )

    def _warn_single(self) -> None:
        """Warn about a group of one row, which counts as much as any other."""
        single = self.groups_[self.group_sizes_ == 1].tolist()
        if single:
            warnings.warn(
                f"Groups of one row count as much as any other: {', '.join(map(repr, single))}. Merge them with "
                "another group, or drop these rows.",
                UserWarning,
                stacklevel=4,
            )

    def _check_selection(self) -> None:
        if self.selection is not None:
            check_choice("selection", self.selection, GROUP_SELECTIONS)


def check_fraction(fraction: object) -> None:
    """Check that `validation` is None or lies between 0 and 1."""
    if fraction is not None and not 0 < check_number("validation", fraction) < 1:
        raise ValueError(f"'validation' should lie between 0 and 1, but is {fraction!r}. Or pass a mask to 'fit'.")


def validation_mask(
    mask: NDArray[np.bool_] | None, fraction: float | None, strata: NDArray[np.int64], random: np.random.RandomState
) -> NDArray[np.bool_]:
    """The mask that `fit` was given, or a random fraction of every stratum; None holds all rows out."""
    if mask is not None:
        return mask
    return np.ones(len(strata), dtype=bool) if fraction is None else split_groups(strata, fraction, random)


def _check_mask(mask: ArrayLike, weights: Array | None, rows: int) -> NDArray[np.bool_]:
    given = np.asarray(mask)
    check_column("validation", given.shape, rows, "X")
    if given.dtype != bool:
        raise TypeError(f"'validation' should be a mask of True and False, but its dtype is {given.dtype}.")
    if not given.any():
        raise ValueError("'validation' should be True for the held-out rows, but is False everywhere.")
    if weights is not None and not given[weights > 0].any():
        raise ValueError(
            "'validation' should be True for rows with a 'sample_weight' above 0, but is for none of them."
        )
    return given
