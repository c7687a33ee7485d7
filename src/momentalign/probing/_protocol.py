"""The protocol: a grid on one seed, its best sets on several, selected by worst-group validation accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from momentalign._datasets import SPLIT_NAMES
from momentalign._format import align_columns
from momentalign._types import ReportProgress, ignore_progress
from momentalign._validation import check_choice, check_count, check_nonnegative, check_weight
from momentalign.linear import LinearHead
from momentalign.probing._data import ProbeData
from momentalign.probing._features import COMPONENTS, ProbeFeatures, project
from momentalign.probing._fit import L2, MAX_ITER, TOL, ProbeSolver
from momentalign.probing._methods import METHODS, PROTOCOL_METHODS, SOLVERS, find_method
from momentalign.probing._recipes import method_grid, recipe_for
from momentalign.selection import FINALISTS, GROUP_RULES, choose_sets, finalists

if TYPE_CHECKING:
    import pandas as pd

ProbeInput = ProbeData | ProbeFeatures | str | Path

_MEASURES = ["weighted_accuracy", "balanced_accuracy", "worst_group_f1", "auroc", "calibration_error"]
"""Measures of the test rows beside average and worst group, as records name them."""

_SCORES = {"accuracy": "average", "worst_group_accuracy": "worst", "worst_class_accuracy": "worst_class"}
"""Accuracies of a split by the names of records."""

_CHOSEN_BY = {
    "worst-group": "worst-group validation accuracy",
    "worst-class": "worst-class validation accuracy, without attributes",
    "train-groups": "worst-group training accuracy, with the attributes of training rows only",
}


@dataclass(frozen=True, eq=False)
class ProtocolResult:
    """What the protocol found.

    Attributes:
        name: Of the data.
        solver: `"converged"` or `"sgd"`.
        isr_class: Name of the class that ISR compared, if any.
        rule: What sets were ranked by.
        table: A row per method: means over seeds of the selected set, accuracies in 0 … 1, published ones in percent.
        fits: A row per fit of the grids.
        notes: What was noticed, a sentence each.
    """

    name: str
    solver: str
    isr_class: str | None
    rule: str
    table: pd.DataFrame
    fits: pd.DataFrame
    notes: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """The table."""
        return self.table.copy()

    def __str__(self) -> str:
        shown = ["published"] if self.table["published_average"].notna().any() else []
        lines = [["", "average", "worst group", "validation", *shown, "set"]]
        for method, row in self.table.iterrows():
            cells = [_percent(row[name], row[f"{name}_se"]) for name in ("average", "worst_group", "validation")]
            if shown:
                pair = (row["published_average"], row["published_worst_group"])
                cells.append("" if math.isnan(pair[0]) else "{:.2f} / {:.2f}".format(*pair))
            about = ", ".join(f"{name} {value:g}" for name, value in row["hparams"].items())
            lines.append([METHODS[str(method)].label, *cells, "; ".join(filter(None, [about, row["note"]]))])
        isr = "no ISR" if self.isr_class is None else f"ISR by class '{self.isr_class}'"
        title = f"{self.name}: test accuracy in %, {self.solver} solver, {isr}; chosen by {_CHOSEN_BY[self.rule]}."
        return "\n".join([title, *align_columns(lines), *self.notes])


def run_protocol(
    data: ProbeInput | Sequence[ProbeInput],
    methods: Sequence[str] | None = None,
    *,
    solver: str = "converged",
    select: str = "worst-group",
    seeds: int = 5,
    top: int = FINALISTS,
    recipe: str = "table",
    components: int = COMPONENTS,
    isr: bool = True,
    isr_class: int | None = None,
    l2: float | None = None,
    tol: float = TOL,
    max_iter: int = MAX_ITER,
    published: Mapping[str, tuple[float, float]] | None = None,
    progress: ReportProgress | None = None,
) -> ProtocolResult:
    """Compare methods by the paper's worst-group linear-probing protocol.

    PCA and ISR-Mean on the training rows, then linear heads without bias. Each method's grid is fitted on one seed, the
    `top` sets by worst-group validation accuracy, or by another rule, on all seeds, and the set with the best mean over
    them is reported on the test rows; ties go to the later set of the grid.

    A seed of the converged solver is a bootstrap of the training rows; of SGD it is the order of the batches.

    Args:
        data: Features, a file of them, or the result of :func:`project`; or a sequence of these, one for each seed,
            such as by encoders that were fine-tuned with it.
        methods: Names; see :data:`METHODS`. None takes those of :data:`PROTOCOL_METHODS` that the solver has.
        solver: `"converged"`: full batch, to a tolerance; `"sgd"`: the paper's recipe.
        select: What sets are ranked by: `"worst-group"` of the validation rows, `"worst-class"` of the validation rows,
            which needs no attributes there, or `"train-groups"`, the worst group of the training rows.
        seeds: Number of seeds.
        top: Number of sets that are fitted on all seeds.
        recipe: `"waterbirds"`, `"celeba"`, `"multinli"`, one of these with `-released`, or `"table"`: epochs, annealing
            steps, class of ISR, and whether features are scaled to a mean square of one, which only the last does.
        components: Principal components to keep.
        isr: Whether to apply ISR-Mean.
        isr_class: Class that ISR compares, as an index; None takes the recipe's, or selects one by worst-group
            validation accuracy where the recipe has none.
        l2: Weight of half the squared norm of the head, in units of the training features' mean square; None takes
            0.001 for the converged solver and 0 for SGD.
        tol: Largest entry of the gradient at a solution, relative to that at zero (converged).
        max_iter: Maximum number of iterations of a fit (converged).
        published: Published average and worst-group accuracy in percent, by method, to print beside.
        progress: Called with the method in progress and the fraction of all fits done.

    Returns:
        The table and all fits.
    """
    import pandas as pd

    check_choice("select", select, GROUP_RULES)
    check_count("top", top, 1)
    check_nonnegative("tol", tol)
    check_count("max_iter", max_iter, 1)
    check_count("components", components, 1)
    strength = check_weight("l2", l2 if l2 is not None else (L2 if solver == "converged" else 0.0))
    fitter = ProbeSolver(check_choice("solver", solver, SOLVERS), strength, tol, max_iter, recipe_for(recipe).epochs)
    inputs = data if isinstance(data, Sequence) and not isinstance(data, str) else [data]
    if len(inputs) not in (1, check_count("seeds", seeds, 1)):
        raise ValueError(f"'data' should be one, or one for each of {seeds} seeds, but are {len(inputs)}.")
    asked = [find_method(name) for name in dict.fromkeys(PROTOCOL_METHODS if methods is None else methods)]
    label = recipe_for(recipe).isr_class if isr_class is None else isr_class
    options = {"components": components, "isr": isr, "isr_class": label, "unit_scale": recipe_for(recipe).unit_scale}
    of_seeds = [_projected(one, **options) for one in inputs] * (seeds // len(inputs))
    chosen, notes = [], list(of_seeds[0].data.notes)
    for method in asked:
        if methods is not None or solver in method.solvers:
            try:
                method.check_groups(of_seeds[0].data)
                chosen.append(method)
            except ValueError as error:
                if methods is not None:
                    raise
                notes.append(f"Left out: {error}")
    rows, *others = (len(of_seeds[0].splits[split].targets) for split in SPLIT_NAMES)
    grids = {
        name: method_grid(name, solver, recipe_for(recipe), train_rows=rows, evaluation_rows=others)
        for name in dict.fromkeys(method.same_as or method.name for method in chosen)
    }
    total = sum(len(grid) + min(top, len(grid)) * (seeds - 1) for grid in grids.values())
    finished, report = count(1), progress or ignore_progress
    metric, split = GROUP_RULES[select]

    def fit(name: str, numbers: Sequence[int], seed: int) -> pd.DataFrame:
        method, features = find_method(name), of_seeds[seed]
        tick = lambda: report(method.label, min(1.0, next(finished) / total))  # noqa: E731
        found = fitter.fit(features, method, [grids[name][number] for number in numbers], seed, tick=tick)
        fits = [
            {"algorithm": name, "hparams_seed": number, "trial": seed, **grids[name][number]}
            | _accuracies(features, head)
            | {"converged": head.converged, "head": head, "dataset": "", "setting": "probe"}
            for number, head in zip(numbers, found, strict=True)
        ]
        return pd.DataFrame(fits).assign(validation=lambda frame: frame[f"{split}_{_SCORES[metric]}"])

    fits, selected = [], {}
    for name, grid in grids.items():
        first = fit(name, range(len(grid)), 0)
        best = sorted(finalists(first, top)["hparams_seed"])
        fits.append(pd.concat([first, *(fit(name, best, seed) for seed in range(1, seeds))]))
        selected[name] = choose_sets(fits[-1][fits[-1]["hparams_seed"].isin(best)])
    table = []
    for method in chosen:
        name = method.same_as or method.name
        own, number = selected[name], int(selected[name]["hparams_seed"].iloc[0])
        measures = [of_seeds[fit.trial].measures(fit.head, "test") for fit in own.itertuples()]
        beside = (published or {}).get(method.name, (math.nan, math.nan))
        table.append(
            {"method": method.name, **_mean("average", own["test_average"]), **_mean("worst_group", own["test_worst"])}
            | pd.DataFrame(measures).mean().reindex(_MEASURES).to_dict()
            | _mean("validation", own["validation"])
            | {"seeds": len(own), "sets": 1 if method.same_as else len(grids[name]), "hparams": grids[name][number]}
            | {"published_average": beside[0], "published_worst_group": beside[1], "note": method.notes(solver)}
        )
    of_all, source = pd.concat(fits, ignore_index=True), of_seeds[0].data
    of_all = of_all.drop(columns=["head", "dataset", "setting", "validation"])
    of_all = of_all.rename(columns={"algorithm": "method", "trial": "seed"})
    for split in SPLIT_NAMES:
        absent = [name for name in source.group_names if name not in source.count_groups(split)]
        if absent:
            effect = "no method can weigh them" if split == "train" else "left out there"
            notes.append(f"Groups without rows in '{split}', {effect}: {'; '.join(absent)}.")
    stopped = of_all[~of_all["converged"]]
    if len(stopped):
        outcome = f"did not converge within {max_iter} iterations" if solver == "converged" else "diverged"
        names = ", ".join(sorted(set(stopped["method"])))
        notes.append(f"{len(stopped)} of {len(of_all)} fits {outcome} ({names}).")
    index = of_seeds[0].projection.isr_class
    compared = None if index is None else source.classes[index]
    frame = pd.DataFrame(table).set_index("method")
    return ProtocolResult(source.name, solver, compared, select, frame, of_all, tuple(notes))


def _projected(data: ProbeInput, **options: Any) -> ProbeFeatures:
    if isinstance(data, ProbeFeatures):
        return data
    return project(data if isinstance(data, ProbeData) else ProbeData.from_file(data), **options)


def _accuracies(features: ProbeFeatures, head: LinearHead) -> dict[str, float]:
    scores = {split: features.score(head, split) for split in SPLIT_NAMES}
    return {f"{split}_{name}": getattr(scores[split], name) for split in SPLIT_NAMES for name in _SCORES.values()}


def _mean(name: str, values: pd.Series) -> dict[str, float]:
    """Mean over seeds and its standard error, ddof 1; NaN for one seed."""
    return {name: float(values.mean()), f"{name}_se": float(values.sem())}


def _percent(mean: float, error: float) -> str:
    return f"{100 * mean:.2f}" + ("" if math.isnan(error) else f" ± {100 * error:.2f}")
