"""From a table to a model that holds up on domains it has not seen, beside the plain one on the same rows."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._validation import check_choice, check_count
from momentalign.data import read_table
from momentalign.data._columns import encode, said_of
from momentalign.probing._model import ProbeModel
from momentalign.probing._table_folds import TASKS, Fold, Rows, make_folds, take_targets
from momentalign.probing._table_models import Prepared, fit_aligned, fit_plain, prepare, ticks, time_one_fit, with_head
from momentalign.probing._table_scores import TableScores, score_table

Tell = Callable[[str, float], None]

_WIDE = 500
_SAMPLE = 2000
"""Rows that the time of a fit is estimated from."""


@dataclass(frozen=True, eq=False)
class TableResult:
    """What came of it.

    Args:
        scores: Of both models on the test rows.
        model: The aligned model.
        chosen: Weights that it chose.
        notes: What had to be done to the test rows, a sentence each.
    """

    scores: TableScores
    model: ProbeModel
    chosen: dict[str, Any]
    notes: tuple[str, ...]


class TableProbe:
    """A table, what is asked of it, and what will be done; :meth:`run` does it.

    Args:
        path: A .csv, .csv.gz, .parquet or .npz file.
        target: Column of the labels.
        domain: Column that says where a row came from.
        group: Column of the groups whose worst is asked for; None takes `group` where there is one.
        split: Column that says train, val or test; None takes `split` where there is one.
        test_domain: Domain to hold out.
        task: `"classification"`, `"regression"`, or `"auto"`: the latter for many different numbers.
        components: Principal components to keep of wider features; None keeps all columns.
        seed: Of folds and of what is held out at random.

    Attributes:
        lines: What was read and what will be done, to print before the work starts.
        parts: Fits and searches that :meth:`run` will make, counted as progress counts them.

    Raises:
        ValueError: The table does not have what is asked for.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        target: str = "y",
        domain: str = "domain",
        group: str | None = None,
        split: str | None = None,
        test_domain: str | None = None,
        task: str = "auto",
        components: int | None = None,
        seed: int = 0,
    ) -> None:
        check_choice("task", task, TASKS)
        if components is not None:
            check_count("components", components, 1)
        self.table = read_table(path, target=target, domain=domain, group=group, split=split)
        self.components, self.seed = components, seed
        names, counts = np.unique(self.table.domains, return_counts=True)
        if test_domain is not None:
            check_choice("test_domain", test_domain, names.tolist())
        self.classes, self.targets = take_targets(self.table, task, target)
        self.folds, plan = make_folds(self.table, test_domain, seed)
        self.final = np.unique(np.concatenate([fold.train for fold in self.folds]))
        for fold in self.folds:
            self._check(fold)
        kind = "a number" if self.classes is None else f"{len(self.classes)} classes"
        self.lines = [
            f"{Path(path).name}: {len(self.targets)} rows, {self.table.features.shape[1]} columns, '{target}' taken as "
            f"{kind}.",
            "Domains: " + ", ".join(f"{name} ({count})" for name, count in zip(names, counts, strict=True)) + ".",
            *self.table.notes,
            *plan,
        ]
        self.prepared = prepare(self.table.features.iloc[self.final], components)
        self.lines += self.prepared.notes
        self.grouped = self.table.groups is not None and self.classes is not None
        if self.grouped:
            self.lines.append("Weights are chosen by the worst group, in folds of the training rows.")
        elif self.table.groups is not None:
            self.lines.append("Groups play no part where the target is a number.")
        fits = [*(fold.train for fold in self.folds), *([] if len(self.folds) == 1 else [self.final])]
        self.parts = sum(self._ticks(rows) for rows in fits)
        width = self.prepared.features.shape[1]
        searches = "One search" if len(fits) == 1 else f"{len(fits)} searches"
        self.lines.append(
            f"{searches} over weights on up to {max(len(rows) for rows in fits)} rows of {width} numbers."
            + (" Wide features take long: --components 100 is quicker." if width > _WIDE else "")
        )
        self.about = {
            "target": target,
            "domain": domain,
            "task": "regression" if self.classes is None else "classification",
        }

    @property
    def plain_name(self) -> str:
        """What the aligned model is compared with."""
        return "ridge" if self.classes is None else "logistic regression"

    def seconds(self) -> float:
        """Estimate how long :meth:`run` takes, from one fit on some of the rows; right to a factor of two or so."""
        step = max(1, len(self.final) // _SAMPLE)
        rows = self.final[::step]
        began = time.perf_counter()
        time_one_fit(self.prepared.features[::step], self.targets[rows], self.table.domains[rows], self.classes)
        return (time.perf_counter() - began) * step * 1.5 * self.parts

    def run(self, progress: Tell | None = None) -> TableResult:
        """Fit both models, score them on the test rows, and fit the model to keep.

        Args:
            progress: Told the part under way and the share that is done.

        Returns:
            Scores and model.
        """
        counter = _Counter(self.parts, progress)
        answers: dict[str, list[NDArray[Any]]] = {self.plain_name: [], "moment aligned": []}
        notes: list[str] = []
        model, chosen = self.prepared.model, dict[str, Any]()
        for fold in self.folds:
            counter.part = fold.name
            prepared = self.prepared if len(self.folds) == 1 else self._prepare(fold.train)
            plain, model, chosen = self._fit(prepared, fold.train, counter)
            encoded = encode(self.table.features.iloc[fold.test], model.columns)
            # With every domain left out in turn, all missing values have been spoken of.
            alone = len(self.folds) == 1
            notes += said_of(encoded, "test rows" if alone else f"'{fold.name}'", missing=alone)
            for name, one in zip(answers, (plain, model), strict=True):
                answers[name].append(self._answers(one, encoded.matrix))
        if len(self.folds) > 1:
            counter.part = "all domains"
            _, model, chosen = self._fit(self.prepared, self.final, counter, plain=False)
        test = np.concatenate([fold.test for fold in self.folds])
        scores = score_table(
            self.targets[test],
            {name: np.concatenate(found) for name, found in answers.items()},
            self.table.domains[test],
            None if self.table.groups is None else self.table.groups[test],
            classify=self.classes is not None,
        )
        return TableResult(scores, replace(model, about={**self.about, "chosen": chosen}), chosen, tuple(notes))

    def _prepare(self, rows: Rows) -> Prepared:
        return prepare(self.table.features.iloc[rows], self.components)

    def _fit(
        self, prepared: Prepared, rows: Rows, counter: "_Counter", *, plain: bool = True
    ) -> tuple[ProbeModel, ProbeModel, dict[str, Any]]:
        """The plain and the aligned model of some rows, and what was chosen."""
        classify, targets = self.classes is not None, self.targets[rows]
        if classify:
            # Classes that these rows lack have no row in the head: they are never predicted.
            present, targets = np.unique(targets, return_inverse=True)
        groups = self.table.groups[rows] if self.table.groups is not None and self.grouped else None
        before = counter.done
        coef, intercept, chosen = fit_aligned(
            prepared.features,
            targets,
            self.table.domains[rows],
            groups,
            classify=classify,
            seed=self.seed,
            tick=counter.tick,
        )
        names = None
        if classify and self.classes is not None:
            names = tuple(self.classes[place] for place in present)
        aligned = with_head(prepared.model, coef, intercept, names)
        base = aligned
        if plain:
            base = with_head(prepared.model, *fit_plain(prepared.features, targets, classify=classify), names)
        counter.catch_up(before + self._ticks(rows))
        return base, aligned, chosen

    def _answers(self, model: ProbeModel, numbers: NDArray[np.float64]) -> NDArray[Any]:
        """Classes as indices of this table's, or numbers."""
        logits = model.logits_of(numbers)
        if self.classes is None or model.classes is None:
            return logits[:, 0]
        places = np.array([self.classes.index(name) for name in model.classes])
        likeliest: NDArray[np.int64] = places[model.probabilities(logits).argmax(1)]
        return likeliest

    def _ticks(self, rows: Rows) -> int:
        return ticks(len(np.unique(self.table.domains[rows])), grouped=self.grouped)

    def _check(self, fold: Fold) -> None:
        present = np.unique(self.table.domains[fold.train])
        if len(present) < 2:
            found = f"all are of '{present[0]}'" if len(present) else "there are none"
            raise ValueError(
                f"Training rows should be of at least two domains, but {found}. There is nothing to align."
            )
        if self.classes is not None and len(np.unique(self.targets[fold.train])) < 2:
            only = self.classes[int(self.targets[fold.train][0])]
            raise ValueError(f"Training rows should be of at least two classes, but all are of '{only}'.")
        if not len(fold.test):
            raise ValueError("There should be rows to test on, but there are none. Name a '--test-domain'.")


class _Counter:
    """Counts parts for whoever watches."""

    def __init__(self, total: int, progress: Tell | None) -> None:
        self.total, self.progress, self.done, self.part = total, progress, 0, ""

    def tick(self) -> None:
        """One part is done."""
        self.catch_up(self.done + 1)

    def catch_up(self, done: int) -> None:
        """So many parts are done."""
        self.done = done
        if self.progress is not None:
            self.progress(self.part, min(1.0, self.done / self.total))
