"""Remedies for worst groups: what each fits, from the parameters of an estimator."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._types import Array
from momentalign.linear import (
    LinearHead,
    balance_weights,
    fit_afr,
    fit_group_dro,
    fit_head,
    fit_jtt,
    fit_subsampled,
    unit_l2,
)
from momentalign.sklearn._dfr import Reweighting
from momentalign.sklearn._groups import GroupRows, validation_mask

_AFR_SHARE = 0.2


class Remedies(Reweighting):
    """One method for each remedy; see :class:`GroupRobustClassifier`."""

    method: str
    l2: float | None
    draws: int
    gammas: Sequence[float]
    afr_l2s: Sequence[float]
    upweights: Sequence[float]
    first_l2_factors: Sequence[float]
    gradient_weight: float
    hessian_weight: float
    fit_intercept: bool
    tol: float

    def _balanced(self, rows: GroupRows, random: np.random.RandomState) -> LinearHead:
        self._warn_single()
        return self._head(rows, balance_weights(rows.groups, rows.weights))

    def _subsampled(self, rows: GroupRows, random: np.random.RandomState) -> LinearHead:
        self._check_sizes(rows.groups, 2, "training", "Use method='balanced'")
        return fit_subsampled(
            rows.features,
            rows.targets,
            rows.groups,
            draws=self.draws,
            random=random,
            sample_weight=rows.weights,
            l2=self.l2,
            **self._options(),
        )

    def _group_dro(self, rows: GroupRows, random: np.random.RandomState) -> LinearHead:
        self._warn_single()
        head, self.group_weights_ = fit_group_dro(
            rows.features,
            rows.targets,
            rows.groups,
            l2=self._strength(rows),
            sample_weight=rows.weights,
            **self._options(),
        )
        return head

    def _dfr(self, rows: GroupRows, random: np.random.RandomState) -> LinearHead:
        fit, self.validation_ = self._reweight(rows, random)
        self.C_, self.scores_ = fit.C, fit.scores
        return fit.head

    def _afr(self, rows: GroupRows, random: np.random.RandomState) -> LinearHead:
        share = _AFR_SHARE if self.validation is None else self.validation
        held_out = validation_mask(rows.validation, share, rows.targets, random)
        self.validation_ = rows.as_given(held_out)
        self._check_classes(rows, ~held_out, "training")
        self._check_classes(rows, held_out, "held-out")
        fit = fit_afr(
            rows.features,
            rows.targets,
            held_out=held_out,
            scored=self._scored_rows(rows, rows.validation),
            gammas=self.gammas,
            l2s=self.afr_l2s,
            random=random,
            sample_weight=rows.weights,
            l2=self.l2,
            **self._options(),
        )
        self.gamma_, self.afr_l2_, self.scores_ = fit.gamma, fit.l2, fit.scores
        return fit.head

    def _jtt(self, rows: GroupRows, random: np.random.RandomState) -> LinearHead:
        held_out = np.zeros(len(rows.targets), dtype=bool) if rows.validation is None else rows.validation
        self._check_classes(rows, ~held_out, "training")
        fit = fit_jtt(
            rows.features,
            rows.targets,
            fitted=np.flatnonzero(~held_out),
            scored=self._scored_rows(rows, rows.validation),
            first_l2_factors=self.first_l2_factors,
            upweights=self.upweights,
            random=random,
            sample_weight=rows.weights,
            l2=self.l2,
            **self._options(),
        )
        self.upweight_, self.first_l2_factor_, self.scores_ = fit.upweight, fit.first_l2_factor, fit.scores
        return fit.head

    def _cma(self, rows: GroupRows, random: np.random.RandomState) -> LinearHead:
        if rows.domains is None:
            warnings.warn(
                "Without 'domains' method 'cma' has nothing to align and is method 'balanced'. Pass the attribute of "
                "each row: fit(X, y, groups=group, domains=attribute).",
                UserWarning,
                stacklevel=3,
            )
            return self._balanced(rows, random)
        self._warn_single()
        self._warn_one_class(rows.targets, rows.domains)
        cells = np.unique(np.column_stack([rows.domains, rows.groups]), axis=0, return_inverse=True)[1].ravel()
        weights = {1: self.gradient_weight, 2: self.hessian_weight}
        return self._head(rows, balance_weights(cells, rows.weights), rows.domains, weights)

    def _head(
        self,
        rows: GroupRows,
        sample_weight: Array,
        domains: NDArray[np.int64] | None = None,
        order_weights: dict[int, float] | None = None,
    ) -> LinearHead:
        return fit_head(
            rows.features,
            rows.targets,
            domains,
            order_weights,
            sample_weight=sample_weight,
            l2=self._strength(rows),
            **self._options(),
        )

    def _strength(self, rows: GroupRows) -> float:
        return unit_l2(len(rows.targets), rows.weights) if self.l2 is None else self.l2

    def _options(self) -> dict[str, Any]:
        return {
            "classes": len(self.classes_),
            "bias": self.fit_intercept,
            "tol": self.tol,
            "max_iter": self.max_iter,
        }

    def _warn_one_class(self, targets: NDArray[np.int64], domains: NDArray[np.int64]) -> None:
        """Warn about domains with rows of one class, whose gradients cannot agree with those of the others."""
        pairs = np.unique(np.column_stack([domains, targets]), axis=0)
        single = int((np.bincount(pairs[:, 0]) == 1).sum())
        if single:
            warnings.warn(
                f"{single} of {len(np.unique(domains))} 'domains' hold rows of one class only. Alignment then compares "
                "classes, not attributes: merge these domains with others, or use method='balanced'.",
                UserWarning,
                stacklevel=4,
            )

    def _check_classes(self, rows: GroupRows, mask: NDArray[np.bool_], kind: str) -> None:
        """Raise a ValueError that names a class without rows of a kind."""
        missing = np.setdiff1d(np.arange(len(self.classes_)), rows.targets[mask])
        if len(missing):
            label = self.classes_.tolist()[missing[0]]
            raise ValueError(
                f"method '{self.method}' needs {kind} rows of every class, but class {label!r} has none. Pass a mask "
                "with some of them on both sides."
            )


REMEDIES = {
    "balanced": Remedies._balanced,
    "subsampled": Remedies._subsampled,
    "groupdro": Remedies._group_dro,
    "dfr": Remedies._dfr,
    "afr": Remedies._afr,
    "jtt": Remedies._jtt,
    "cma": Remedies._cma,
}

WITHOUT_GROUPS = ("afr", "jtt")
"""Remedies that are fitted with labels only."""
