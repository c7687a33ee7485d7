"""The rules that are compared, and what they choose."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from benchmarks.selection.curves import Curves
from momentalign._types import Array
from momentalign.selection import record_scores

REACHES = (0.0, 1.0, 2.0, 3.0, 5.0)
GAP_WEIGHTS = (0.3, 1.0, 3.0, 10.0)
SCORE_DIGITS = 5
"""Scores are compared to as many digits as accuracies are stored with."""

Rule = Callable[[Curves], Array]


def _mean(run: Curves) -> Array:
    total = int(run.steps[-1]) + 1
    return record_scores("training-domain", run.accuracy, run.rows, run.steps, total_steps=total)


def _last(run: Curves, scores: Array) -> Array:
    return np.where(run.steps == run.steps[-1], scores, np.nan)


def _sum_over_domains(run: Curves, reach: float) -> Array:
    """Risk of the worst affine combination of K domains with weights of at least -`reach`."""
    worst = run.accuracy.min(axis=1, keepdims=True)
    variance = run.accuracy * (1 - run.accuracy) / run.rows
    at_worst = np.where(run.accuracy == worst, variance, 0).max(axis=1, keepdims=True)
    above = np.maximum(0, run.accuracy - worst - 2 * np.sqrt(variance + at_worst))
    return run.started(worst[:, 0] - reach * above.sum(axis=1))


def _losses(run: Curves, reach: float) -> Array:
    worst = run.loss.max(axis=1)
    return run.started(-worst - reach * (worst - run.loss.min(axis=1)))


def _gap(run: Curves, name: str, weight: float) -> Array:
    """Mean accuracy minus the spread of the head's derivatives."""
    return run.started(run.accuracy.mean(axis=1) - weight * run.gaps[name])


def rules() -> dict[str, Rule]:
    """The rules that are compared, by name."""
    found: dict[str, Rule] = {
        "mean accuracy (training-domain)": _mean,
        "mean accuracy, last record": lambda run: _last(run, _mean(run)),
    }
    found |= {f"range, λ = {reach:g}": partial(Curves.extrapolated, reach=reach) for reach in REACHES}
    found |= {
        f"range, λ = {reach:g}, z = 0": partial(Curves.extrapolated, reach=reach, noise=False) for reach in REACHES
    }
    found |= {f"sum over domains, λ = {reach:g}": partial(_sum_over_domains, reach=reach) for reach in REACHES[1:]}
    found |= {f"losses, λ = {reach:g}": partial(_losses, reach=reach) for reach in REACHES}
    for name in ("gradient", "hessian"):
        found |= {f"mean − {weight:g} · {name} gap": partial(_gap, name=name, weight=weight) for weight in GAP_WEIGHTS}
    found["oracle (labels of the test domain, last record)"] = lambda run: _last(run, run.test_out)
    return found


def choose(curves: Sequence[Curves], rule: Rule) -> dict[tuple[str, str, str, int], float]:
    """Test accuracy of the chosen record in each cell, in percent; the mean of the runs whose best scores are equal."""
    best: dict[tuple[str, str, str, int], tuple[float, list[float]]] = {}
    for run in curves:
        try:
            scores = rule(run)
        except KeyError:  # the run has no gaps
            continue
        if np.isnan(scores).all():
            continue
        index = int(np.nanargmax(scores))
        score, test = round(float(scores[index]), SCORE_DIGITS), 100 * float(run.test[index])
        if run.cell not in best or score > best[run.cell][0]:
            best[run.cell] = (score, [test])
        elif score == best[run.cell][0]:
            best[run.cell][1].append(test)
    return {cell: float(np.mean(tests)) for cell, (_, tests) in best.items()}
