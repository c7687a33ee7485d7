"""Groups of rows, and rows that are held out, as `fit` is given them."""

import warnings
from typing import Any, ClassVar

import numpy as np
import sklearn
from numpy.typing import ArrayLike, NDArray

from momentalign._validation import check_blanks, check_column, check_number
from momentalign.linear import split_groups
from momentalign.sklearn._base import LogitClassifier, encode_labels


class GroupClassifier(LogitClassifier):
    """A linear classifier that is fitted with groups."""

    # Unlike for the estimators with domains: a request has to be stated.
    __metadata_request__fit: ClassVar = {"groups": None}

    groups_: NDArray[Any]
    group_sizes_: NDArray[np.int64]

    def _take_groups(
        self, groups: ArrayLike | None, targets: NDArray[np.int64], domains: NDArray[Any] | None = None
    ) -> NDArray[np.int64]:
        """Set `groups_` and `group_sizes_`, and return the index of each row's group.

        Without groups they are the pairs of class and domain, or, with a warning, the classes.
        """
        if groups is not None:
            self.groups_, codes = encode_labels(groups, len(targets), name="groups")
            check_blanks("groups", self.groups_.tolist())
        elif domains is not None:
            pairs = [f"{self.classes_[target]}|{domain}" for target, domain in zip(targets, domains, strict=True)]
            self.groups_, codes = encode_labels(pairs, len(targets), name="groups")
        else:
            warnings.warn(self._without_groups(), UserWarning, stacklevel=4)
            self.groups_, codes = self.classes_, targets
        self.group_sizes_ = np.bincount(codes, minlength=len(self.groups_))
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

    def _check_sizes(self, codes: NDArray[np.int64], least: int, kind: str, advice: str) -> None:
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

    def _check_classes(self, targets: NDArray[np.int64], held_out: NDArray[np.bool_]) -> None:
        """Raise a ValueError that names a class without training or without held-out rows."""
        for kind, mask in {"training": ~held_out, "held-out": held_out}.items():
            missing = np.setdiff1d(np.arange(len(self.classes_)), targets[mask])
            if len(missing):
                label = self.classes_.tolist()[missing[0]]
                raise ValueError(
                    f"method 'afr' needs training and held-out rows of every class, but class {label!r} has no {kind} "
                    "row. Pass a mask with some of them on both sides."
                )


def check_fraction(fraction: object) -> None:
    """Check that `validation` is None or lies between 0 and 1."""
    if fraction is not None and not 0 < check_number("validation", fraction) < 1:
        raise ValueError(f"'validation' should lie between 0 and 1, but is {fraction!r}. Or pass a mask to 'fit'.")


def validation_mask(
    mask: ArrayLike | None, fraction: float | None, strata: NDArray[np.int64], random: np.random.RandomState
) -> NDArray[np.bool_]:
    """The mask that `fit` was given, or a random fraction of every stratum; None holds all rows out."""
    if mask is None:
        return np.ones(len(strata), dtype=bool) if fraction is None else split_groups(strata, fraction, random)
    given = np.asarray(mask)
    check_column("validation", given.shape, len(strata), "X")
    if given.dtype != bool:
        raise TypeError(f"'validation' should be a mask of True and False, but its dtype is {given.dtype}.")
    if not given.any():
        raise ValueError("'validation' should be True for the held-out rows, but is False everywhere.")
    return given
