"""The protocol: a grid on one seed, its best sets on several, chosen by worst-group validation accuracy."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from momentalign._validation import check_choice, check_count, check_weight
from momentalign.linear import LinearHead
from momentalign.probing._data import ProbeData
from momentalign.probing._features import COMPONENTS, ProbeFeatures, project
from momentalign.probing._methods import PROTOCOL_METHODS, SOLVERS, Hparams, ProbeMethod, find_method, method_grid
from momentalign.probing._recipes import Recipe, recipe_for
from momentalign.probing._result import Fit, MethodResult, ProtocolResult, Published
from momentalign.probing._scores import predict
from momentalign.probing._solvers import L2, MAX_ITER, TOL, Solver

Tell = Callable[[str, float], None]
"""Told the part under way and the share of the whole that is done, 0 … 1."""


def run_protocol(
    data: ProbeData | ProbeFeatures | str | Path,
    methods: Sequence[str] = PROTOCOL_METHODS,
    *,
    solver: str = "converged",
    seeds: int = 5,
    top: int = 5,
    recipe: str = "table",
    components: int = COMPONENTS,
    isr: bool = True,
    isr_class: int | None = None,
    l2: float | None = None,
    tol: float = TOL,
    max_iter: int = MAX_ITER,
    published: Published | None = None,
    progress: Tell | None = None,
) -> ProtocolResult:
    """Compare methods by the paper's worst-group linear-probing protocol.

    PCA and ISR-Mean on the training rows, then linear heads without bias. For each method its grid is fitted on one
    seed, the `top` sets by worst-group validation accuracy go on to all seeds, and the one with the best mean over them
    is reported, on the test rows. Ties go to the set that is listed later.

    A seed of the converged solver is a bootstrap of the training rows; of SGD it is the order of the batches.

    Args:
        data: Features, a file of them, or what :func:`project` made of them.
        methods: Names; see :data:`METHODS`.
        solver: `"converged"`: full batch, to a tolerance; `"sgd"`: the paper's recipe.
        seeds: Number of seeds.
        top: Sets that go on to all seeds.
        recipe: `"waterbirds"`, `"celeba"`, `"multinli"` or `"table"`: epochs, annealing steps, class of ISR, and
            whether features are brought to a mean square of one, which the last does.
        components: Principal components to keep.
        isr: Whether to apply ISR-Mean.
        isr_class: Class that ISR compares, as an index; None takes the recipe's, or chooses one by worst-group
            validation accuracy where the recipe has none.
        l2: Weight of half the squared norm of the head, in units of the training features' mean square; None takes
            0.001 for the converged solver and 0 for SGD.
        tol: Largest entry of the gradient at a solution, relative to that at zero (converged).
        max_iter: Most iterations of a fit (converged).
        published: Published accuracies to print beside.
        progress: Told the method under way and the share that is done.

    Returns:
        The table and all fits.
    """
    check_choice("solver", solver, SOLVERS)
    check_count("seeds", seeds, 1)
    check_count("top", top, 1)
    chosen = [find_method(name) for name in dict.fromkeys(methods)]
    plan = recipe_for(recipe)
    strength = check_weight("l2", l2 if l2 is not None else (L2 if solver == "converged" else 0.0))
    fitter = Solver(solver, plan, strength, check_weight("tol", tol), check_count("max_iter", max_iter, 1))
    features = features_of(data, plan, components=components, isr=isr, isr_class=isr_class)
    rows = len(features.train.targets)
    needed = list(dict.fromkeys(method.same_as or method.name for method in chosen))
    grids = {name: method_grid(name, solver, plan, train_rows=rows) for name in needed}
    total = sum(len(grid) + min(top, len(grid)) * (seeds - 1) for grid in grids.values())
    counter = _Counter(total, progress)
    fits: list[Fit] = []
    best: dict[str, tuple[Fit, ...]] = {}
    for name in needed:
        counter.part = find_method(name).label
        found = _search(features, find_method(name), grids[name], fitter, seeds, top, counter)
        fits += found
        best[name] = _choose(found, seeds)
    table = tuple(
        MethodResult(
            method.name,
            method.label,
            best[method.same_as or method.name],
            1 if method.same_as else len(grids[method.name]),
            method.note.get(solver, ""),
        )
        for method in chosen
    )
    label = features.projection.isr_class
    return ProtocolResult(
        features.data.name,
        solver,
        None if label is None else features.data.classes[label],
        table,
        tuple(fits),
        _notes(features, fits, fitter),
        dict(published or {}),
    )


def features_of(
    data: ProbeData | ProbeFeatures | str | Path,
    recipe: Recipe,
    *,
    components: int,
    isr: bool,
    isr_class: int | None,
) -> ProbeFeatures:
    """The projected features of data of any kind; see :func:`run_protocol`."""
    if isinstance(data, ProbeFeatures):
        return data
    raw = data if isinstance(data, ProbeData) else ProbeData.from_file(data)
    label = recipe.isr_class if isr_class is None else isr_class
    number = check_count("components", components, 1)
    return project(raw, components=number, isr=isr, isr_class=label, unit_scale=recipe.unit_scale)


def score_fit(features: ProbeFeatures, method: str, hparams: Hparams, place: int, seed: int, head: LinearHead) -> Fit:
    """Accuracies of a head on validation and test rows."""
    val, test = (
        features.score(predict(head, rows.features) == rows.targets, split)
        for split, rows in features.splits.items()
        if split != "train"
    )
    return Fit(method, hparams, place, seed, val, test, head.converged)


def _search(
    features: ProbeFeatures,
    method: ProbeMethod,
    grid: list[dict[str, float]],
    solver: Solver,
    seeds: int,
    top: int,
    counter: "_Counter",
) -> list[Fit]:
    """All fits of a method: the grid on the first seed, then the best sets on the others."""

    def fits(places: list[int], seed: int) -> list[Fit]:
        heads = solver.fit(features, method, [grid[place] for place in places], seed, counter.tick)
        return [
            score_fit(features, method.name, grid[place], place, seed, head)
            for place, head in zip(places, heads, strict=True)
        ]

    found = fits(list(range(len(grid))), 0)
    ranked = sorted(found, key=lambda fit: (fit.val.worst, fit.hparams_seed), reverse=True)
    finalists = sorted(fit.hparams_seed for fit in ranked[:top])
    for seed in range(1, seeds):
        found += fits(finalists, seed)
    return found


def _choose(fits: list[Fit], seeds: int) -> tuple[Fit, ...]:
    """The fits of the set with the best mean worst-group validation accuracy, among those that met all seeds."""
    sets: dict[int, list[Fit]] = {}
    for fit in fits:
        sets.setdefault(fit.hparams_seed, []).append(fit)
    whole = [(place, found) for place, found in sets.items() if len(found) == seeds]
    return tuple(max(whole, key=lambda pair: (np.mean([fit.val.worst for fit in pair[1]]), pair[0]))[1])


def _notes(features: ProbeFeatures, fits: list[Fit], solver: Solver) -> tuple[str, ...]:
    notes = list(features.data.notes)
    for split in ("val", "test"):
        groups = features.splits[split].groups
        absent = [name for place, name in enumerate(features.data.group_names) if not (groups == place).any()]
        if absent:
            notes.append(f"Groups without rows in '{split}', left out there: {'; '.join(absent)}.")
    stopped = [fit for fit in fits if not fit.converged]
    if stopped and solver.name == "converged":
        listed = ", ".join(sorted({fit.method for fit in stopped}))
        notes.append(
            f"{len(stopped)} of {len(fits)} fits did not converge within {solver.max_iter} iterations ({listed})."
        )
    elif stopped:
        listed = ", ".join(sorted({fit.method for fit in stopped}))
        notes.append(f"{len(stopped)} of {len(fits)} fits diverged at this learning rate ({listed}).")
    return tuple(notes)


class _Counter:
    """Counts fits for whoever watches."""

    def __init__(self, total: int, progress: Tell | None) -> None:
        self.total, self.progress, self.done, self.part = total, progress, 0, ""

    def tick(self) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(self.part, min(1.0, self.done / self.total))
