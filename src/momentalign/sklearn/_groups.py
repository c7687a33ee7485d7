"""Groups of rows and rows that are held out, as `fit` is given them, and DFR on them."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from momentalign._errors import warn_user
from momentalign._types import Integers
from momentalign._validation import (
    check_blanks,
    check_choice,
    check_column,
    check_count,
    check_nonnegative,
    check_number,
)
from momentalign.linear import PUBLISHED_REFITS, LinearHead, fit_dfr, split_groups
from momentalign.sklearn._base import FitRows, LogitClassifier, check_weights, encode_labels


class GroupClassifier(LogitClassifier):
    """A linear classifier that is fitted with groups, with the arguments and the fit of DFR."""

    # Unlike for the estimators with domains: 'groups' are splitters' as well, so a request has to be stated.
    __metadata_request__fit: ClassVar = {"groups": None}

    Cs: Sequence[float]
    refits: int | None
    refit_on: str
    validation: float | None
    max_iter: int

    C_: float
    groups_: NDArray[Any]
    group_sizes_: NDArray[np.int64]
    scores_: NDArray[np.float64]
    validation_: NDArray[np.bool_]

    def _take_rows(
        self,
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None,
        domains: ArrayLike | None,
        held_out: ArrayLike | None,
        sample_weight: ArrayLike | None,
    ) -> tuple[FitRows, int]:
        """Validate the arguments of `fit`, and count the rows as given; set `groups_` and `group_sizes_`.

        Without groups they are the pairs of class and domain, or, with a warning, the classes.
        """
        features, targets = self._validate_targets(X, y)
        number, codes, weights = len(features), None, check_weights(sample_weight, features)
        if domains is not None:
            labels, codes = encode_labels(domains, number)
        if groups is not None:
            self.groups_, units = encode_labels(groups, number, "groups")
            check_blanks("groups", self.groups_.tolist())
        elif codes is not None:
            pairs = [f"{self.classes_[target]}|{labels[code]}" for target, code in zip(targets, codes, strict=True)]
            self.groups_, units = encode_labels(pairs, number, "groups")
        else:
            warn_user(
                f"Without 'groups' {type(self).__name__} takes the classes as groups. Pass the group of each row: "
                "fit(X, y, groups=group); in cross-validation params={'groups': group}, where metadata routing is on "
                "with set_fit_request(groups=True)."
            )
            self.groups_, units = self.classes_, targets
        mask = None if held_out is None else _check_mask(held_out, number)
        rows = FitRows(features, targets, np.arange(number), codes, weights, units, mask)
        if weights is not None and not weights.all():
            for kind, names, column in (("class", self.classes_, targets), ("group", self.groups_, units)):
                empty = np.setdiff1d(column, column[weights > 0])
                if len(empty):
                    raise ValueError(
                        f"Every {kind} should have rows with a 'sample_weight' above 0, but "
                        f"{names.tolist()[empty[0]]!r} has none. Leave its rows out."
                    )
            rows = rows.take(np.flatnonzero(weights))
        self.group_sizes_ = np.bincount(units[rows.given])
        return rows, number

    def _fit_dfr(self, rows: FitRows, random: np.random.RandomState, number: int) -> LinearHead:
        """DFR; sets `C_`, `scores_` and `validation_`, the held-out rows among the `number` given ones."""
        assert rows.groups is not None
        held_out = rows.held_out
        if held_out is None:
            everything = np.ones(len(rows.given), dtype=bool)
            held_out = everything if self.validation is None else split_groups(rows.groups, self.validation, random)
        if self.refit_on == "training":
            if held_out.all():
                raise ValueError(
                    "refit_on='training' needs rows that are not held out, but all are. "
                    "Pass validation=0.5, or a mask to 'fit'."
                )
            self._check_sizes(rows.groups[~held_out], 2, "training", "Hold fewer of its rows out")
        least = 1 if self.refit_on == "training" else 2
        self._check_sizes(rows.groups[held_out], least, "held-out", "Hold more of its rows out")
        fit = fit_dfr(
            rows.features,
            rows.targets,
            rows.groups,
            held_out=held_out,
            refit_on=self.refit_on,
            classes=len(self.classes_),
            Cs=self.Cs,
            refits=PUBLISHED_REFITS[self.refit_on] if self.refits is None else self.refits,
            random=random,
            max_iter=self.max_iter,
            sample_weight=rows.weights,
        )
        self.C_, self.scores_ = fit.C, fit.scores
        self.validation_ = np.isin(np.arange(number), rows.given[held_out])
        return fit.head

    def _check_sizes(self, codes: Integers, least: int, kind: str, advice: str) -> None:
        """Raise a ValueError that names the groups with fewer than `least` rows among those of some kind."""
        sizes = np.bincount(codes, minlength=len(self.groups_)).tolist()
        sizes_by_label = zip(self.groups_.tolist(), sizes, strict=True)
        small = [f"{label!r} has {size}" for label, size in sizes_by_label if size < least]
        if small:
            raise ValueError(
                f"Every group should have at least {least} {kind} rows, but {', '.join(small)}. {advice}, or merge it "
                "with another group."
            )

    def _check_dfr(self) -> None:
        """Check the arguments of DFR."""
        check_choice("refit_on", self.refit_on, PUBLISHED_REFITS)
        if not len(self.Cs) or 0 in [check_nonnegative("Cs", C) for C in self.Cs]:
            raise ValueError(f"'Cs' should hold at least one number, all above 0, but is {self.Cs!r}.")
        if self.refits is not None:
            check_count("refits", self.refits, 1)
        if self.validation is not None and not 0 < check_number("validation", self.validation) < 1:
            raise ValueError(
                f"'validation' should lie between 0 and 1, but is {self.validation!r}. Or pass a mask to 'fit'."
            )
        check_count("max_iter", self.max_iter, 1)


def _check_mask(held_out: ArrayLike, rows: int) -> NDArray[np.bool_]:
    mask = np.asarray(held_out)
    check_column("validation", mask.shape, rows, "X")
    if mask.dtype != bool:
        raise TypeError(f"'validation' should be a mask of True and False, but its dtype is {mask.dtype}.")
    return mask
