"""The protocol: a grid on one seed, its best sets on several, selected by worst-group validation accuracy."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from momentalign._datasets import SPLIT_NAMES
from momentalign._types import ReportProgress, ignore_progress
from momentalign._validation import check_choice, check_count, check_nonnegative, check_weight
from momentalign.probing._data import ProbeData, check_group_sizes, small_group
from momentalign.probing._features import COMPONENTS, ProbeFeatures, project
from momentalign.probing._fit import L2, MAX_ITER, TOL, ProbeSolver
from momentalign.probing._methods import PROTOCOL_METHODS, SOLVERS, ProbeMethod, find_method
from momentalign.probing._probe_recipes import method_grid, recipe_for
from momentalign.probing._result import MethodResult, ProbeFit, ProtocolResult, Published

ProbeInput = ProbeData | ProbeFeatures | str | Path


def run_protocol(
    data: ProbeInput | Sequence[ProbeInput],
    methods: Sequence[str] | None = None,
    *,
    solver: str = "converged",
    select: str = "worst-group",
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
        published: Published accuracies to print beside.
        progress: Called with the method in progress and the fraction of all fits done.

    Returns:
        The table and all fits.
    """
    from momentalign.selection import GROUP_RULES  # imports pandas

    check_choice("solver", solver, SOLVERS)
    check_choice("select", select, GROUP_RULES)
    check_count("seeds", seeds, 1)
    check_count("top", top, 1)
    names = PROTOCOL_METHODS if methods is None else tuple(dict.fromkeys(methods))
    chosen = [find_method(name) for name in names]
    if methods is None:
        chosen = [method for method in chosen if solver in method.solvers]
    plan = recipe_for(recipe)
    strength = check_weight("l2", l2 if l2 is not None else (L2 if solver == "converged" else 0.0))
    check_nonnegative("tol", tol)
    check_count("max_iter", max_iter, 1)
    check_count("components", components, 1)
    fitter = ProbeSolver(solver, strength, tol, max_iter, plan.epochs)
    inputs = data if isinstance(data, Sequence) and not isinstance(data, str) else [data]
    if len(inputs) not in (1, seeds):
        raise ValueError(f"'data' should be one, or one for each of {seeds} seeds, but are {len(inputs)}.")
    label = plan.isr_class if isr_class is None else isr_class
    of_seeds = [
        _projected(one, components=components, isr=isr, isr_class=label, unit_scale=plan.unit_scale) for one in inputs
    ]
    of_seeds, features = of_seeds * (seeds // len(inputs)), of_seeds[0]
    left_out = {}
    for method in chosen:
        if methods is not None:
            check_group_sizes(features.data, method.name, method.least)
        elif problem := small_group(features.data, method.name, method.least):
            left_out[method.name] = f"Left out: {problem}"
    chosen = [method for method in chosen if method.name not in left_out]
    rows, *others = (len(features.splits[split].targets) for split in SPLIT_NAMES)
    needed = list(dict.fromkeys(method.same_as or method.name for method in chosen))
    grids = {name: method_grid(name, solver, plan, train_rows=rows, evaluation_rows=others) for name in needed}
    total = sum(len(grid) + min(top, len(grid)) * (seeds - 1) for grid in grids.values())
    finished, report = count(1), progress or ignore_progress

    def report_fit(label: str) -> None:
        report(label, min(1.0, next(finished) / total))

    fits: list[ProbeFit] = []
    best: dict[str, tuple[ProbeFit, ...]] = {}
    for name in needed:
        method = find_method(name)
        tick = partial(report_fit, method.label)
        of_method, best[name] = _search(of_seeds, method, grids[name], fitter, select, seeds, top, tick)
        fits += of_method
    table = tuple(
        MethodResult(
            method.name,
            method.label,
            best[method.same_as or method.name],
            1 if method.same_as else len(grids[method.name]),
            method.note.get(solver, ""),
            tuple(of_seeds[fit.seed].measures(fit.head, "test") for fit in best[method.same_as or method.name]),
        )
        for method in chosen
    )
    isr_index = features.projection.isr_class
    return ProtocolResult(
        features.data.name,
        solver,
        None if isr_index is None else features.data.classes[isr_index],
        table,
        tuple(fits),
        (*_notes(features, fits, fitter), *left_out.values()),
        dict(published or {}),
        select,
    )


def _projected(data: ProbeInput, **options: Any) -> ProbeFeatures:
    if isinstance(data, ProbeFeatures):
        return data
    return project(data if isinstance(data, ProbeData) else ProbeData.from_file(data), **options)


def _search(
    of_seeds: Sequence[ProbeFeatures],
    method: ProbeMethod,
    grid: list[dict[str, float]],
    solver: ProbeSolver,
    rule: str,
    seeds: int,
    top: int,
    tick: Callable[[], None],
) -> tuple[list[ProbeFit], tuple[ProbeFit, ...]]:
    """Fit the grid on the first seed and the best sets on the others; all fits, and those of the best set."""
    from momentalign.selection import best_set, best_sets  # imports pandas

    def fit_sets(indices: list[int], seed: int) -> list[ProbeFit]:
        features = of_seeds[seed]
        heads = solver.fit(features, method, [grid[index] for index in indices], seed, tick)
        return [
            ProbeFit(
                method.name,
                grid[index],
                index,
                seed,
                features.score(head, "train"),
                features.score(head, "val"),
                features.score(head, "test"),
                head,
            )
            for index, head in zip(indices, heads, strict=True)
        ]

    fits = fit_sets(list(range(len(grid))), 0)
    finalists = sorted(best_sets({fit.hparams_seed: fit.validation(rule) for fit in fits}, top))
    for seed in range(1, seeds):
        fits += fit_sets(finalists, seed)
    by_set = {index: [fit for fit in fits if fit.hparams_seed == index] for index in finalists}
    chosen = best_set({index: [fit.validation(rule) for fit in of_set] for index, of_set in by_set.items()})
    return fits, tuple(by_set[chosen])


def _notes(features: ProbeFeatures, fits: list[ProbeFit], solver: ProbeSolver) -> tuple[str, ...]:
    notes = list(features.data.notes)
    for split in SPLIT_NAMES:
        groups = features.splits[split].groups
        absent = [name for index, name in enumerate(features.data.group_names) if not (groups == index).any()]
        if absent:
            effect = "no method can weigh them" if split == "train" else "left out there"
            notes.append(f"Groups without rows in '{split}', {effect}: {'; '.join(absent)}.")
    stopped = [fit for fit in fits if not fit.converged]
    if stopped:
        names = ", ".join(sorted({fit.method for fit in stopped}))
        outcome = "diverged at this learning rate"
        if solver.name == "converged":
            outcome = f"did not converge within {solver.max_iter} iterations"
        notes.append(f"{len(stopped)} of {len(fits)} fits {outcome} ({names}).")
    return tuple(notes)
