"""The search by worst groups or classes, with the remedies of :class:`GroupRobustClassifier` among the candidates."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from momentalign._types import Array
from momentalign._validation import check_blanks, check_choice, check_names
from momentalign.linear import stratified_folds, unit_l2
from momentalign.sklearn._base import FitRows, encode_labels
from momentalign.sklearn._candidates import Setting
from momentalign.sklearn._group_robust import GroupRobustClassifier
from momentalign.sklearn._groups import GROUP_SELECTIONS
from momentalign.sklearn._remedies import REMEDIES, WITHOUT_GROUPS
from momentalign.sklearn._rule import Choice, choose_for_worst
from momentalign.sklearn._search import LOOSER, WeightSearch
from momentalign.sklearn._splits import FitSplit, SplitProgress

_ROW_FOLDS = 5


class GroupSearch(WeightSearch):
    """A search that decides by folds of rows instead of domains where `selection` asks for it."""

    methods: Sequence[str] | None
    fit_intercept: bool

    remedy_: GroupRobustClassifier | None

    def _by_rows(self) -> bool:
        return self.selection in GROUP_SELECTIONS

    def _check_parameters(self) -> None:
        check_choice("selection", self.selection, ("leave_one_domain_out", *GROUP_SELECTIONS))
        if self._by_rows() and self.scoring not in (None, "accuracy"):
            raise ValueError(f"'scoring' should be 'accuracy' for the worst group, but is {self.scoring!r}.")
        for method in check_names("methods", self._methods()):
            check_choice("methods", method, REMEDIES)
        super()._check_parameters()

    def _methods(self) -> Sequence[str]:
        """Remedies among the candidates; those without groups take long and gain less where groups are known."""
        if self.methods is not None:
            return self.methods
        return [method for method in REMEDIES if method not in WITHOUT_GROUPS or self.selection == "worst_class"]

    def _take_units(self, groups: ArrayLike | None, rows: int) -> NDArray[np.int64] | None:
        if not self._by_rows():
            self._refuse_groups(groups)
        if groups is None:
            return None
        labels, codes = encode_labels(groups, rows, name="groups", partial=True)
        check_blanks("groups", labels.tolist())
        missing = np.flatnonzero(codes < 0)
        if len(missing) and self.selection == "worst_group":
            raise ValueError(
                f"'groups' should hold a label for every row, but {len(missing)} are missing, first in row "
                f"{missing[0]}. Use selection='train_groups', where only rows with a group decide, or "
                "selection='worst_class', which needs labels only; or drop these rows."
            )
        if len(missing) == rows:
            raise ValueError("'groups' should hold labels, but all are missing. Use groups=None.")
        return codes

    def _lacks(self, rows: FitRows) -> str:
        if not self._by_rows():
            return super()._lacks(rows)
        if self._needs_domains(rows.groups):
            found = ("no domains", "one domain", "")[min(len(self.domains_), 2)]
        else:
            found = "one group" if len(np.unique(self._units(rows))) == 1 else ""
        return f"{found} to choose by, and at least two are needed" if found else ""

    def _needs_domains(self, units: NDArray[np.int64] | None) -> bool:
        return not self._by_rows() or (units is None and self.selection != "worst_class")

    def _least_folds(self) -> int:
        return 2 if self._by_rows() else super()._least_folds()

    def _groups(self, rows: FitRows) -> NDArray[np.int64]:
        """Group of each row, −1 if missing: as given, else the pairs of domain and class, else the classes."""
        if rows.groups is not None:
            return rows.groups
        strata = self._strata(rows.targets)
        if rows.domains is None:
            return strata
        pairs: NDArray[np.int64] = np.unique(rows.domains * (strata.max() + 1) + strata, return_inverse=True)[1]
        return pairs

    def _units(self, rows: FitRows) -> NDArray[np.int64]:
        """What decides: group or class of each row, −1 for rows that do not."""
        return self._strata(rows.targets) if self.selection == "worst_class" else self._groups(rows)

    def _splits(self, rows: FitRows) -> list[FitSplit]:
        """Folds of rows, stratified by group, domain and class; rows that do not decide are always fitted."""
        if not self._by_rows():
            return super()._splits(rows)
        decide = np.flatnonzero(self._units(rows) >= 0)
        columns = [self._groups(rows), self._strata(rows.targets)]
        if rows.domains is not None:
            columns.insert(1, rows.domains)
        strata = np.unique(np.column_stack(columns)[decide], axis=0, return_inverse=True)[1].ravel()
        folds = stratified_folds(
            strata, min(self.folds or _ROW_FOLDS, len(decide)), check_random_state(self.random_state)
        )
        every = np.arange(len(rows.targets))
        return [(np.setdiff1d(every, decide[test]), decide[test]) for _, test in folds]

    def _aligned(self, rows: FitRows, l2_factor: float) -> list[Setting]:
        return super()._aligned(rows, l2_factor) if len(self.domains_) > 1 else []

    def _others(self, rows: FitRows, l2_factor: float) -> list[Setting]:
        if not self._by_rows():
            return []
        settings = []
        for method in self._methods():
            weights = [(0.0, 0.0)] if method != "cma" else [pair for pair in self._weights() if any(pair)]
            for gradient, hessian in weights if method != "cma" or len(self.domains_) > 1 else []:
                plain = Setting(gradient_weight=gradient, hessian_weight=hessian, l2_factor=l2_factor, balanced=False)
                settings.append(Setting(**plain, method=method))
        return settings

    def _evaluate(
        self,
        rows: FitRows,
        settings: list[Setting],
        splits: list[FitSplit],
        progress: SplitProgress,
        reference: Array | None = None,
    ) -> Array:
        """Whether each setting, fitted without the row's fold, predicts it: (m, n); NaN where it could not be."""
        if not self._by_rows():
            return super()._evaluate(rows, settings, splits, progress, reference)
        table = np.full((len(settings), len(rows.features)), np.nan)
        if settings:
            for (_, test), hits in zip(splits, self._run(rows, settings, splits, progress), strict=True):
                table[:, test] = hits
        return table

    def _score_heads(self, fitted: FitRows, scored: FitRows, settings: list[Setting]) -> list[Any]:
        if not self._by_rows():
            return super()._score_heads(fitted, scored, settings)
        plain = [setting for setting in settings if "method" not in setting]
        hits = super()._score_heads(fitted, scored, plain) if plain else []
        for setting in settings[len(plain) :]:
            try:
                predicted = self._remedy(fitted, setting).predict(scored.features)
            except ValueError:  # too few rows of a group in this fold
                hits.append(np.full(len(scored.targets), np.nan))
            else:
                hits.append((predicted == scored.targets).astype(np.float64))
        return hits

    def _score(self, head: Any, rows: FitRows) -> Any:
        if not self._by_rows():
            return super()._score(head, rows)
        return (head.predict(rows.features) == rows.targets).astype(np.float64)

    def _remedy(self, rows: FitRows, setting: Setting) -> GroupRobustClassifier:
        """A remedy fitted on class indices, without the rows whose group it would need."""
        method, groups = setting["method"], self._groups(rows)
        if method not in WITHOUT_GROUPS and (groups < 0).any():
            kept = np.flatnonzero(groups >= 0)
            rows, groups = rows.take(kept), groups[kept]
        model = GroupRobustClassifier(
            method,
            l2=self._strength(method, rows, groups, setting["l2_factor"]),
            selection=self.selection,
            gradient_weight=setting["gradient_weight"],
            hessian_weight=setting["hessian_weight"],
            fit_intercept=self.fit_intercept,
            tol=self.tol * LOOSER,
            max_iter=self.max_iter,
            random_state=0,
        )
        missing = np.array([None if group < 0 else group for group in groups.tolist()])
        return model.fit(rows.features, rows.targets, missing, domains=rows.domains, sample_weight=rows.weights)

    def _strength(self, method: str, rows: FitRows, groups: NDArray[np.int64], factor: float) -> float | None:
        """L2 of a remedy: a factor of what is its default."""
        if factor == 1.0:
            return None
        sizes = np.unique(groups, return_counts=True)[1]
        return factor * (unit_l2(len(sizes) * int(sizes.min())) if method == "subsampled" else rows.unit_l2)

    def _step(self, table: Array, rows: FitRows) -> Choice:
        if not self._by_rows():
            return super()._step(table, rows)
        units = self._units(rows)
        decide = units >= 0
        return choose_for_worst(table[:, decide], units[decide], cautious=self.rule == "cautious")

    def _means(self, table: Array, rows: FitRows) -> Array:
        """Accuracy of the worst group or class under each candidate; NaN where one could not be fitted."""
        if not self._by_rows():
            return super()._means(table, rows)
        units = self._units(rows)
        lowest: Array = np.min([table[:, units == unit].mean(1) for unit in np.unique(units[units >= 0])], axis=0)
        return lowest

    def _by_fold(self, table: Array) -> Array:
        return np.empty((len(table), 0)) if self._by_rows() else table

    def _evidence(self, folds: int) -> tuple[str, str]:
        if not self._by_rows():
            return super()._evidence(folds)
        worst = "class" if self.selection == "worst_class" else "group"
        return f"accuracy of the worst {worst}", f"{folds} held-out folds"
