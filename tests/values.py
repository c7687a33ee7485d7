"""Numbers that a rewrite must not change: `python -m tests.values` records them, `--compare` and a test compare.

Names of sections after it restrict both.

A case is a name and lists of numbers. A list differs if an entry is off by more than its section's tolerance times the
largest entry; long arrays stand as norm and projection on a fixed direction. Inputs are NumPy's, so that they are equal
everywhere. In the sections of float32 a list holds relative errors against float64, whose bounds they set.
"""

import json
import lzma
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from benchmarks.records import expand_runs, load_lines
from momentalign import CMA, CORAL, HGP, IRM, MMD, Fishr, GradientMatching, HessianMatching, Hutchinson, VREx
from momentalign import MomentAlignment as Orders
from momentalign.algorithms import algorithm_names, find_algorithm
from momentalign.data import DomainDataset, Split
from momentalign.functional import alignment, derivative_gram, domain_derivatives, domain_gram
from momentalign.probing import METHODS, ProbeData, run_protocol
from momentalign.runs import read_records, read_runs
from momentalign.selection import RULES, select
from momentalign.sklearn import (
    DFRClassifier,
    GroupRobustClassifier,
    ISRCov,
    ISRMean,
    MomentAlignedClassifier,
    MomentAlignedClassifierCV,
    MomentAlignedRegressor,
    MomentAlignedRegressorCV,
    group_report,
)
from momentalign.theory import (
    DomainLosses,
    derivative_distances,
    moment_distances,
    moment_gaps,
    smallest_combination,
    taylor_bounds,
    transfer_report,
)
from momentalign.training import make_config, run

RECORD = Path(__file__).with_name("values.json.xz")
DIGITS = 12
SPLITS = ("train", "val", "test")

Numbers = list[list[float]]
Cases = Iterator[tuple[str, Numbers]]


class Problem(NamedTuple):
    """Size of a batch: features, classes, and rows by domain."""

    d: int
    C: int
    rows: dict[int, int]


PROBLEMS = {
    "small": Problem(3, 3, {0: 4, 1: 4, 2: 4}),
    "two": Problem(5, 2, {1: 10, 0: 10}),
    "uneven": Problem(4, 3, {7: 15, -2: 7, 30: 1}),
    "wide": Problem(384, 7, {2: 9, 0: 8, 1: 7}),
    "many": Problem(64, 65, {0: 24, 1: 24, 2: 24, 3: 24}),
    "head": Problem(384, 65, {0: 40, 1: 30, 2: 26}),
}
SMALL, LARGE = ("small", "two", "uneven"), ("wide", "many", "head")
LOSSES = ("cross_entropy", "logistic", "squared_error")

FAMILY: dict[str, Callable[..., Any]] = {
    "cma": partial(CMA, 0.7, 1.3),
    "gradient": partial(GradientMatching, 0.7),
    "hessian": partial(HessianMatching, 1.3),
    "orders": partial(Orders, {1: 0.7, 2: 1.3, 3: 0.4}),
}
OTHERS: dict[str, Callable[..., Any]] = {
    "irm-head": partial(IRM, 1.3),
    "irm-scale": partial(IRM, 1.3, version="scale"),
    "fishr": partial(Fishr, 1.3),
    "coral": partial(CORAL, 1.3),
    "mmd": partial(MMD, 1.3),
    "hgp-mean": partial(HGP, 0.7, 1.3),
    "hgp-product": partial(HGP, 0.7, 1.3, center="product"),
    "hutchinson": partial(Hutchinson, 0.7, 1.3),
    "hutchinson-classes": partial(Hutchinson, 0.7, 1.3, scaling="classes"),
    "cma-diagonal": partial(Hutchinson, 0.7, 1.3, scaling="parameters"),
    "vrex": partial(VREx, 1.3),
}


def batch(problem: str, loss: str = "cross_entropy", seed: int = 0, sure: float | None = None) -> list[Tensor]:
    """Features, logits, targets and domains in float64; `sure`: how far logits favour the right class."""
    d, C, rows = PROBLEMS[problem]
    C = 1 if loss == "logistic" else C
    rng = np.random.default_rng([seed, d, C])
    domains = rng.permutation(np.repeat(list(rows), list(rows.values())))
    n = len(domains)
    features = rng.normal(size=(n, d)) + 0.3 * (domains[:, None] % 5)
    logits, targets = rng.normal(size=(n, C)), rng.integers(max(C, 2), size=n)
    if loss == "squared_error":
        targets = rng.normal(size=(n, C))
    elif sure is not None:
        right = 2 * targets[:, None] - 1 if C == 1 else np.eye(C)[targets]
        logits = sure * right + 0.3 * logits
    return [torch.from_numpy(array) for array in (features, logits, targets, domains)]


def short(array: ArrayLike | Tensor | None) -> list[float]:
    """Norm of an array, and its projection on a fixed direction."""
    if array is None:
        return [0.0, 0.0]
    flat = np.asarray(array.detach() if isinstance(array, Tensor) else array, dtype=np.float64).ravel()
    direction = np.random.default_rng(flat.size).normal(size=flat.size)
    return [float(np.linalg.norm(flat)), float(flat @ direction / np.linalg.norm(direction))]


def plain(array: ArrayLike | Tensor) -> list[float]:
    """All entries."""
    return np.asarray(array, dtype=np.float64).ravel().tolist()


def gradients(value: Tensor, inputs: list[Tensor], **options: Any) -> list[Tensor | None]:
    """Gradients in features and logits; None where a penalty does not reach."""
    if not value.requires_grad:
        return [None, None]
    return list(torch.autograd.grad(value, inputs[:2], allow_unused=True, **options))


def called(penalty: Callable[..., Tensor], inputs: list[Tensor]) -> tuple[Tensor, list[Tensor | None]]:
    """Value and gradients of one call."""
    features, logits, *rest = inputs
    leaves = [features.clone().requires_grad_(), logits.clone().requires_grad_()]
    value = penalty(*leaves, *rest)
    return value.detach(), gradients(value, leaves)


def summary(penalty: Callable[..., Tensor], inputs: list[Tensor]) -> Numbers:
    """The same as numbers."""
    value, found = called(penalty, inputs)
    return [plain(value), *map(short, found)]


def routes(name: str, loss: str, problem: str) -> list[str]:
    """Routes that serve a penalty of the family."""
    served = ["auto", "gram"]
    if problem not in LARGE and not (name == "orders" and loss != "logistic"):
        served.append("direct")
    return served if name == "orders" or problem == "head" else [*served, "pairwise"]


def penalties() -> Cases:
    """Values, gradients and terms of one call."""
    for name, loss, problem in product(FAMILY, LOSSES, PROBLEMS):
        full = problem in SMALL and name in ("cma", "orders")
        scalings = ("none", "classes", "parameters", "relative") if full else ("none", "relative")
        for route, scaling, bias in product(routes(name, loss, problem), scalings, (True, False) if full else (True,)):
            penalty = FAMILY[name](loss=loss, route=route, scaling=scaling, bias=bias)
            yield f"{name} {loss} {problem} {route} {scaling} bias={bias}", summary(penalty, batch(problem, loss))
    for name, loss, problem, bias in product(OTHERS, LOSSES, PROBLEMS, (True, False)):
        if bias or problem in SMALL:
            penalty = OTHERS[name](loss=loss, bias=bias)
            yield f"{name} {loss} {problem} bias={bias}", summary(penalty, batch(problem, loss))
    for name, make in {**FAMILY, **OTHERS}.items():
        terms = make().terms(*batch("uneven"))
        yield f"{name} terms {' '.join(sorted(terms))}", [[float(terms[key])] for key in sorted(terms)]


def histories() -> Cases:
    """Four calls in a row: moving averages and annealing, the third batch without one domain."""
    remembering = {
        f"{name} {route} {scaling}": partial(FAMILY[name], route=route, scaling=scaling)
        for name, route, scaling in product(FAMILY, ("gram", "direct", "auto"), ("none", "relative"))
        if name != "orders" or route == "gram"
    }
    remembering["fishr"] = OTHERS["fishr"]
    cases: list[tuple[str, Callable[..., Any], str, dict[str, Any]]] = [
        (f"{name} {loss} {problem} momentum", make, problem, {"momentum": 0.7, "loss": loss})
        for (name, make), loss, problem in product(remembering.items(), LOSSES, SMALL)
    ]
    cases += [
        (f"{name} {p} momentum", FAMILY[name], p, {"momentum": 0.9}) for name in ("cma", "gradient") for p in LARGE
    ]
    cases += [
        (f"{name} momentum numbered", remembering[name], "small", {"momentum": 0.9, "num_domains": 3, "bias": False})
        for name in ("cma gram none", "cma direct none", "fishr")
    ]
    annealed = {"anneal_steps": 2}
    cases += [(f"{name} annealed", make, "uneven", annealed) for name, make in {**FAMILY, **OTHERS}.items()]
    cases += [("cma momentum annealed", FAMILY["cma"], "uneven", {"momentum": 0.7, **annealed})]
    for name, make, problem, options in cases:
        penalty = make(**options)
        numbers: Numbers = []
        for call in range(4):
            inputs = batch(problem, options.get("loss", "cross_entropy"), seed=call)
            if call == 2 and len(PROBLEMS[problem].rows) > 2:
                inputs = [column[inputs[3] != inputs[3][0]] for column in inputs]
            numbers += summary(penalty, inputs)
        yield name, numbers + [[float(term)] for _, term in sorted(penalty.eval().terms(*inputs).items())]


def second_derivatives() -> Cases:
    """Gradients of a projection of the gradients."""
    makes = {
        **OTHERS,
        **{f"{name} {route}": partial(FAMILY[name], route=route) for name, route in product(FAMILY, ("auto", "gram"))},
        "cma direct": partial(FAMILY["cma"], route="direct"),
        "cma relative": partial(FAMILY["cma"], scaling="relative"),
    }
    for (name, make), loss, problem in product(makes.items(), LOSSES, ("small", "uneven")):
        features, logits, *rest = batch(problem, loss)
        leaves = [features.requires_grad_(), logits.requires_grad_()]
        first = gradients(make(loss=loss)(*leaves, *rest), leaves, create_graph=True)
        rng = np.random.default_rng(5)
        projected = sum((g * torch.from_numpy(rng.normal(size=g.shape))).sum() for g in first if g is not None)
        yield f"{name} {loss} {problem}", [short(found) for found in gradients(torch.as_tensor(projected), leaves)]


def errors(make: Callable[..., Any], inputs: list[Tensor], calls: int = 1) -> Numbers:
    """Errors of float32 relative to the norm: of the value, and of the gradients."""
    single = [column.float() if column.is_floating_point() else column for column in inputs]
    exact = [column.double() if column.is_floating_point() else column for column in single]
    penalties = make(), make()
    for _ in range(calls):
        (value, found), (expected, truth) = (called(p, b) for p, b in zip(penalties, (single, exact), strict=True))
    pairs = [(value, expected), *zip(found, truth, strict=True)]
    return [[float((a - b).norm() / b.norm())] for a, b in pairs if a is not None and b is not None and b.any()]


SINGLE: dict[str, Callable[..., Any]] = {
    **OTHERS,
    **{f"cma {route}": partial(FAMILY["cma"], route=route) for route in ("auto", "gram", "direct", "pairwise")},
    **{f"cma {scaling}": partial(FAMILY["cma"], scaling=scaling) for scaling in ("classes", "relative")},
    **{name: FAMILY[name] for name in ("gradient", "hessian", "orders")},
    "cma momentum": partial(FAMILY["cma"], momentum=0.7),
}


def single() -> Cases:
    """Errors of float32."""
    for (name, make), loss, problem in product(SINGLE.items(), LOSSES, PROBLEMS):
        if (loss == LOSSES[0] or problem in SMALL) and (problem in SMALL or name not in ("cma direct", "cma pairwise")):
            yield f"{name} {loss} {problem}", errors(partial(make, loss=loss), batch(problem, loss), calls=2)


SURE = {"vrex": 9, "fishr": 25, "cma relative": 25}
"""How sure a model may be before float32 has no digits of the gradient; 40 for all others."""


def confident() -> Cases:
    """Errors of float32 where a model is sure: the gradients only, values may vanish."""
    for (name, make), sure, (problem, loss) in product(
        SINGLE.items(),
        (9.0, 14.0, 25.0, 40.0),
        [("two", LOSSES[0]), ("uneven", LOSSES[0]), ("many", LOSSES[0]), ("two", LOSSES[1])],
    ):
        blind = name in ("coral", "mmd") or sure > SURE.get(name, 40)
        if not blind and (problem in SMALL or name not in ("cma direct", "cma pairwise")):
            found = errors(partial(make, loss=loss), batch(problem, loss, sure=sure))
            yield f"{name} {loss} {problem} +{sure:g}", found[1:]


def functional() -> Cases:
    """Grams, derivatives and spreads as functions."""
    orders = {"cross_entropy": (1, 2, 3), "logistic": (1, 2, 3, 4, 5), "squared_error": (1, 2, 3)}
    for loss, problem, bias in product(LOSSES, SMALL, (True, False)):
        inputs, options = batch(problem, loss), {"loss": loss, "bias": bias}
        for order in orders[loss]:
            name = f"{loss} {problem} bias={bias} order {order}"
            yield f"derivative_gram {name}", [short(derivative_gram(order, *inputs[:3], **options))]
            served = ["auto", "gram", *["direct"] * (loss == "logistic" or order < 3), *["pairwise"] * (order < 3)]
            for route in served:
                yield f"domain_gram {name} {route}", [plain(domain_gram(order, *inputs, route=route, **options))]
                yield f"alignment {name} {route}", summary(partial(alignment, order, route=route, **options), inputs)
            if problem != "uneven":  # a domain of one row has no unbiased estimate
                spread = partial(alignment, order, unbiased=True, **options)
                yield f"alignment {name} unbiased", summary(spread, inputs)
            if order < 3:
                yield f"domain_derivatives {name}", [short(domain_derivatives(order, *inputs, **options))]


def table(rows: int = 180, classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, classes and sites of a table with a shortcut: where a row comes from goes with its class."""
    rng = np.random.default_rng([seed, classes])
    y = rng.integers(classes, size=rows)
    site = np.where(rng.random(rows) < 0.6, y, rng.integers(4, size=rows))
    X = rng.normal(size=(rows, 5))
    X[:, 0] += 0.8 * y
    X[:, 1] += site
    X[:, 2] *= 1 + 0.5 * site
    return X, y, np.array(["north", "east", "south", "west"])[site]


def estimators() -> Cases:
    """Coefficients, and what searches choose."""

    def head(model: Any) -> Numbers:
        return [plain(np.append(np.ravel(model.coef_), model.intercept_))]

    settings: list[dict[str, Any]] = [
        *({"gradient_weight": a, "hessian_weight": b} for a, b in ((0, 0), (1, 0), (0, 1), (10, 3))),
        *({"gradient_weight": 2, "hessian_weight": 1, "scaling": s} for s in ("none", "classes", "parameters")),
        {"l2": 0.05, "fit_intercept": False},
    ]
    exact = {"tol": 1e-9, "max_iter": 5000}
    for classes, setting in product((2, 3), settings):
        X, y, site = table(classes=classes)
        model = MomentAlignedClassifier(**setting, **exact).fit(X, y, domains=site)
        yield f"classifier {classes} {setting}", head(model)
    X, y, site = table()
    weight = np.random.default_rng(3).random(len(y))
    yield "classifier weighted", head(MomentAlignedClassifier(**exact).fit(X, y, domains=site, sample_weight=weight))
    numbers = X @ np.arange(5) + 0.3 * y + np.random.default_rng(4).normal(size=len(y))
    for scaling, gradient_weight, bias in product(("relative", "none", "classes"), (0.0, 1.0, 30.0), (True, False)):
        made = MomentAlignedRegressor(gradient_weight, scaling=scaling, fit_intercept=bias, **exact)
        yield f"regressor {scaling} {gradient_weight} {bias}", head(made.fit(X, numbers, domains=site))
    both = np.column_stack([numbers, y])
    fitted = MomentAlignedRegressor(2.0, l2=0.1, **exact).fit(X, both, domains=site, sample_weight=weight)
    yield "regressor, two outputs", head(fitted)
    for scoring in ("neg_log_loss", "balanced_accuracy"):
        search = MomentAlignedClassifierCV((1, 10), (1,), (0.1, 10), scoring=scoring, **exact).fit(X, y, domains=site)
        chosen = [search.gradient_weight_, search.hessian_weight_, search.l2_factor_, float(search.balanced_)]
        yield f"classifier search {scoring}", [chosen, plain(np.nan_to_num(search.scores_)), *head(search)]
    for rule in ("cautious", "best"):
        searched = MomentAlignedRegressorCV((1, 10), (0.1, 10), rule=rule, **exact).fit(X, numbers, domains=site)
        chosen = [searched.gradient_weight_, searched.l2_factor_, float(searched.balanced_)]
        yield f"regressor search {rule}", [chosen, plain(np.nan_to_num(searched.scores_)), *head(searched)]
    for method, classes in product(("balanced", "subsampled", "groupdro", "dfr", "cma"), (2, 3)):
        X, y, site = table(360, classes)
        groups = [f"{a} {b}" for a, b in zip(y, site == "north", strict=True)]
        options = {"draws": 3, "refits": 3, "Cs": (1.0, 0.1), "hessian_weight": 0.5, "tol": 1e-8}
        robust = GroupRobustClassifier(method, **options).fit(X, y, groups=groups, domains=site)
        yield f"robust {method} {classes}", head(robust)
    for refit_on in ("validation", "training"):
        recipe = DFRClassifier((1.0, 0.1, 0.01), refits=3, refit_on=refit_on, validation=0.4).fit(X, y, groups=groups)
        yield f"dfr {refit_on}", [[recipe.C_], plain(recipe.scores_), *head(recipe)]
    scores = group_report(y, recipe.predict(X), groups, probabilities=recipe.predict_proba(X)).metrics()
    yield "group_report", [[scores[name]] for name in sorted(scores)]
    for name, isr, rows in (("mean", ISRMean(), site != ""), ("cov", ISRCov(2), np.isin(site, ["north", "east"]))):
        rotated = isr.fit_transform(X[rows], y[rows], domains=site[rows])
        yield f"isr-{name}", [[isr.n_spurious_], short(rotated), short(rotated @ rotated.T)]


def theory() -> Cases:
    """Measures, bounds and moments on small tables."""
    X, y, site = table(120)
    X = (X - X.mean(0)) / X.std(0)
    numbers = X[:, 0] + np.random.default_rng(4).normal(size=len(y))
    for loss, targets in (("cross_entropy", y), ("squared_error", numbers)):
        report = transfer_report(X, targets, site, loss=loss, target=X[:30] + 0.2, target_labels=targets[:30])
        frame = report.to_frame()
        for column in frame.columns.drop(["source", "target"]):
            yield f"{loss} frame {column}", [plain(frame[column])]
        yield f"{loss} pareto", [plain(getattr(report.pareto, name)) for name in ("head", "weights", "gradient_norms")]
        yield f"{loss} values", [plain(report.pareto.values)]
        for name in ("bounds", "target"):
            found = vars(getattr(report, name)) | {"exact": report.measures.exact}
            yield f"{loss} {name}", [plain(found[key]) for key in sorted(found)]
        hull = report.hull
        yield f"{loss} hull", [plain(hull.weights), [hull.residual, hull.noise, hull.p_value]]
        for (order, form), bound in report.taylor.items():
            yield f"{loss} taylor {order} {form}", [plain(bound.pairs), plain(bound.remainder)]
    for loss, targets in (("cross_entropy", y), ("logistic", y), ("squared_error", numbers)):
        losses = DomainLosses(X, targets, site, loss=loss, l2=0.1)
        head = np.random.default_rng(6).normal(size=tuple(losses.shape))
        norms = losses.derivative_norms(head, 3)
        for (order, form), bound in taylor_bounds(losses, head, 0.5, losses.values(head) / 2, norms).items():
            if form == "full":
                yield f"{loss} taylor_bound {order}", [plain(bound.pairs), plain(bound.remainder)]
        slopes = losses.gradients(head).flatten(1)
        weights, norm = smallest_combination(slopes @ slopes.T)
        yield f"{loss} pareto_check", [plain(weights), [norm]]
        for order, found in derivative_distances(losses, head, order=3, resamples=20).items():
            values = [norms[order], *vars(found).values()]
            yield f"{loss} derivative_distances {order}", [plain(each) for each in values]
    gaps = moment_gaps(X, site)
    yield "moment_gaps", [plain(gaps.mean), plain(gaps.covariance), [gaps.average_mean, gaps.average_covariance]]
    for order in (1, 2, 3):
        yield f"moment_distances {order}", [plain(moment_distances(order, X, site))]


def probing() -> Cases:
    """Fits of small protocols: accuracies of all rows, worst group and worst class; measures of their tables."""
    X, y, site = table(320)
    splits = np.repeat([0, 1, 2], [160, 80, 80])
    data = ProbeData.from_arrays(X, y, np.where(site == "north", "land", "water"), splits)
    dropped = ("afr", "jtt", "moment-alignment", "hgp-product")
    converged = [name for name in METHODS if name not in dropped]
    for solver, methods in (("converged", converged), ("sgd", ["vrex", "groupdro", "gradient-matching"])):
        found = run_protocol(data, methods, solver=solver, seeds=1, top=1, tol=1e-8, max_iter=5000)
        for fit in found.fits.iloc[:: 1 if solver == "sgd" else 3].to_dict("records"):
            scores = [fit[f"{split}_{name}"] for split, name in product(SPLITS, ("average", "worst", "worst_class"))]
            about = ("method", "hparams_seed", "seed", "converged")
            hparams = {name: value for name, value in fit.items() if name not in about and value == value}
            text = ", ".join(
                f"{name} {hparams[name]:g}" for name in sorted(hparams) if name.split("_")[0] not in SPLITS
            )
            yield f"{solver} {fit['method']} {text}", [scores]
        for name in ("average", "worst_group", "auroc", "calibration_error", "worst_group_f1"):
            yield f"{solver} table {name}", [plain(found.table[name])]


def selection() -> Cases:
    """What each rule chooses among the runs of a stored study, and made ones with groups or two test domains."""
    lines, rng, made = load_lines("ablation"), np.random.default_rng(0), []
    first = lines[0]["run"]
    tested = [[name] for name in first["domains"]] + [list(pair) for pair in combinations(first["domains"], 2)]
    keys = [f"accuracy|{split}|{name}" for split, name in product(("in", "out"), first["domains"])]
    keys += ["worst_group_accuracy|val|", "worst_class_accuracy|val|", "worst_group_accuracy|train|"]
    keys += ["worst_group_accuracy|test|", "accuracy|test|"]
    for algorithm, trial, number, domains in product(("erm", "cma"), range(2), range(7), tested):
        config = {"algorithm": algorithm, "trial": trial, "hparams_seed": number, "test_domains": domains}
        curves = {key: rng.integers(50, 100, size=4).tolist() for key in keys}  # with ties
        curves = {key: [value / 100 for value in values] for key, values in curves.items()}
        about = {**first, "config": {**first["config"], **config, "dataset": "made"}, "hash": f"{len(made):016x}"}
        made.append({"run": about, "steps": [0, 10, 20, 30], "curves": curves})
    with tempfile.TemporaryDirectory() as folder:
        expand_runs(lines + made, Path(folder))
        sweep = read_runs(Path(folder))
    for rule in RULES:
        for row in select(sweep, rule).itertuples():
            name = f"{rule} {row.dataset} {row.algorithm} {row.test_domain} {row.trial}"
            yield name, [[row.hparams_seed], [row.step], [row.validation], [row.test]]


def training() -> Cases:
    """Losses of thirty steps of every algorithm, with what anneals beginning at the fifteenth."""
    rng = np.random.default_rng(0)

    def split(rows: int, shift: float) -> Split:
        targets = rng.integers(3, size=rows)
        inputs = rng.normal(size=(rows, 6)) + np.eye(6)[targets] + shift
        return Split(torch.tensor(inputs, dtype=torch.float32), torch.from_numpy(targets))

    domains = {
        name: {"in": split(40, shift), "out": split(10, shift)} for name, shift in (("a", 0.0), ("b", 0.4), ("c", -0.4))
    }
    data = DomainDataset("three", 3, domains)
    for name in algorithm_names():
        hparams = {
            "batch_size": 12,
            **({"anneal_steps": 15} if "anneal_steps" in find_algorithm(name).space("mnist", 30) else {}),
        }
        config = make_config(data, name, steps=30, record_every=3, encoder="mlp", preset="published", hparams=hparams)
        with tempfile.TemporaryDirectory() as folder:
            run(config, Path(folder), data=data, accelerator="cpu", save=False)
            yield name, [[r["value"] for r in read_records(Path(folder)) if r["metric"] == "loss"]]


SECTIONS: dict[str, tuple[Callable[[], Cases], float]] = {
    "penalties": (penalties, 1e-9),
    "histories": (histories, 1e-9),
    "second_derivatives": (second_derivatives, 1e-9),
    "functional": (functional, 1e-9),
    "single": (single, 2e-6),
    "confident": (confident, 1e-5),
    "estimators": (estimators, 1e-6),
    "theory": (theory, 1e-6),
    "probing": (probing, 1e-6),
    "selection": (selection, 1e-9),
    "training": (training, 1e-2),
}
"""Cases and tolerance; of float32's errors, the bound below which they may grow."""

GROWTH = {"single": 4.0, "confident": 10.0}
"""How much an error of float32 may grow above its bound."""

FLOOR = 1e-6
"""Share of a case's largest number that counts as zero in its other lists, before the tolerance."""


def record() -> dict[str, dict[str, Numbers]]:
    """The recorded numbers by section and case."""
    found: dict[str, dict[str, Numbers]] = json.loads(lzma.decompress(RECORD.read_bytes()))
    return found


def differences(section: str, recorded: dict[str, Numbers]) -> list[str]:
    """A line for each case that differs: its name, which list, by how much, and both lists."""
    make, tolerance = SECTIONS[section]
    found = dict(make())
    lines = [f"{name}: not recorded" for name in found.keys() - recorded.keys()]
    for name, before in recorded.items():
        after = found.get(name)
        if after is None or list(map(len, after)) != list(map(len, before)):
            lines.append(f"{name}: {'missing' if after is None else f'other lists, {before} was {after}'}")
            continue
        floor = FLOOR * max((abs(value) for numbers in before for value in numbers), default=0.0)
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            if section in GROWTH:
                off, limit = new[0], max(GROWTH[section] * old[0], tolerance)
            else:
                largest = max(floor, *map(abs, old))
                change = np.abs(np.subtract(new, old)).max()
                off, limit = change / largest if largest else change, tolerance
            if not off <= limit:
                short_old, short_new = ([f"{value:.10g}" for value in values[:4]] for values in (old, new))
                lines.append(
                    f"{name}, list {index}: off by {off:.1e}, at most {limit:.1e}: {short_old} became {short_new}"
                )
    return [f"{section}: {line}" for line in lines]


def main() -> int:
    """Record the sections that are named, by default all, or with `--compare` print what differs from the record."""
    names = [name for name in sys.argv[1:] if name != "--compare"] or list(SECTIONS)
    recorded = record() if RECORD.exists() else {}
    if "--compare" in sys.argv:
        changed = [line for name in names for line in differences(name, recorded[name])]
        print("\n".join(changed) or "No value differs.")
        return int(bool(changed))
    for name in names:
        cases = SECTIONS[name][0]()
        recorded[name] = {case: [[float(f"{x:.{DIGITS}g}") for x in row] for row in rows] for case, rows in cases}
    text = json.dumps(recorded, separators=(",", ":"))
    RECORD.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{RECORD}: {sum(map(len, recorded.values()))} cases, {RECORD.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
