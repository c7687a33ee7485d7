"""Study of selection rules without target data: `python -m benchmarks.selection RUNS... --help`.

Every rule scores a record by the held-out rows of the training domains; the record and the set of hyper-parameters with
the largest score are chosen within data set, algorithm, test domain and trial. The number is the accuracy on the test
domain's "in" split, averaged over test domains within a trial, then over trials.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from momentalign._types import Array, Integers
from momentalign.runs import Sweep, read_runs
from momentalign.selection import record_scores

REACHES = (0.0, 1.0, 2.0, 3.0, 5.0)
GAP_WEIGHTS = (0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True, eq=False)
class Curves:
    """One run's numbers at its s records, on the held-out rows of its K training domains.

    Args:
        cell: Data set, algorithm, test domain and trial.
        steps: Shape (s,).
        accuracy: Shape (s, K).
        loss: Cross-entropy, shape (s, K).
        gaps: Relative spreads of the head's gradients and Hessians, by name, shape (s,) each.
        rows: Numbers of held-out rows, shape (K,).
        test: Accuracy on the test domain's "in" split, shape (s,).
        test_out: Accuracy on its "out" split, shape (s,), for the oracle.
    """

    cell: tuple[str, str, str, int]
    steps: Integers
    accuracy: Array
    loss: Array
    gaps: dict[str, Array]
    rows: Array
    test: Array
    test_out: Array

    def extrapolated(self, reach: float, *, noise: bool = True) -> Array:
        """Worst accuracy minus `reach` times the range; without `noise`, small differences count as well."""
        rows = self.rows if noise else None
        total = int(self.steps[-1]) + 1
        return record_scores("extrapolated", self.accuracy, rows, self.steps, total_steps=total, reach=reach)

    def started(self, scores: Array) -> Array:
        """Scores from the first record on that `extrapolated` may choose."""
        return np.where(np.isnan(self.extrapolated(0.0)), np.nan, scores)


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


def read_curves(sweep: Sweep) -> Iterator[Curves]:
    """Curves of the finished runs with one test domain, raw weights and averaged ones."""
    records = sweep.records
    held = records[records["domain"].notna() & records["split"].isin(["in", "out"])]
    by_run = dict(iter(held.groupby("run", observed=True)))
    whole = records[records["domain"].isna() & records["metric"].isin(["gradient_gap", "hessian_gap"])]
    gaps_by_run = dict(iter(whole.groupby("run", observed=True)))
    for run in sweep.finished().itertuples():
        if len(run.test_domains) != 1 or run.Index not in by_run:
            continue
        table = by_run[run.Index].pivot_table(
            index="step", columns=["metric", "split", "domain"], values="value", observed=True, dropna=False
        )
        training = [name for name in run.domains if name not in run.test_domains]
        gaps = {}
        if run.Index in gaps_by_run:
            wide = gaps_by_run[run.Index].pivot_table(index="step", columns="metric", values="value", observed=True)
            gaps = {name: wide[f"{name}_gap"].reindex(table.index).to_numpy() for name in ("gradient", "hessian")}
        for prefix, suffix in (("", ""), ("averaged_", "+average")):
            if (f"{prefix}accuracy", "out", training[0]) not in table.columns:
                continue
            part = table.dropna(subset=[(f"{prefix}accuracy", "out", training[0])])
            values = {
                metric: np.column_stack([part[f"{prefix}{metric}", "out", name] for name in training])
                for metric in ("accuracy", "cross_entropy")
            }
            index = table.index.get_indexer(part.index)
            rows = np.array([run.rows[name]["out"] for name in training])
            yield Curves(
                cell=(run.dataset, run.algorithm + suffix, run.test_domains[0], run.trial),
                steps=part.index.to_numpy(),
                accuracy=values["accuracy"],
                loss=values["cross_entropy"],
                gaps={name: gap[index] for name, gap in gaps.items()} if not prefix else {},
                rows=rows,
                test=part[f"{prefix}accuracy", "in", run.test_domains[0]].to_numpy(),
                test_out=part[f"{prefix}accuracy", "out", run.test_domains[0]].to_numpy(),
            )


def read_lines(file: Path) -> Iterator[Curves]:
    """Curves of the runs that `benchmarks.fine_tuning` wrote, without losses and gaps; settings of CMA are its sets."""
    for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        training, accuracies = list(line["rows"]), line["accuracies"]
        algorithm = "erm" if line["setting"] == "ERM" else "cma"
        yield Curves(
            cell=(line["dataset"], algorithm, line["domain"], line["seed"]),
            steps=np.array(line["records"]),
            accuracy=np.column_stack([accuracies[f"{name}/out"] for name in training]),
            loss=np.full((len(line["records"]), len(training)), np.nan),
            gaps={},
            rows=np.array(list(line["rows"].values())),
            test=np.array(accuracies[f"{line['domain']}/in"]),
            test_out=np.array(accuracies[f"{line['domain']}/out"]),
        )


def choose(curves: Sequence[Curves], rule: Rule) -> dict[tuple[str, str, str, int], float]:
    """Test accuracy of the chosen record in each cell, in percent."""
    best: dict[tuple[str, str, str, int], tuple[float, float]] = {}
    for run in curves:
        try:
            scores = rule(run)
        except KeyError:  # the run has no gaps
            continue
        if np.isnan(scores).all():
            continue
        index = int(np.nanargmax(scores))
        if run.cell not in best or scores[index] >= best[run.cell][0]:
            best[run.cell] = (float(scores[index]), 100 * float(run.test[index]))
    return {cell: test for cell, (_, test) in best.items()}


def tables(curves: Sequence[Curves], per_domain: bool = False) -> list[str]:
    """A table in Markdown for each data set: rules in rows, algorithms in columns."""
    lines: list[str] = []
    for dataset in sorted({run.cell[0] for run in curves}):
        own = [run for run in curves if run.cell[0] == dataset]
        algorithms = list(dict.fromkeys(run.cell[1] for run in own))
        trials = sorted({run.cell[3] for run in own})
        lines += [f"### {dataset}", "", f"Trials {', '.join(map(str, trials))}; average over test domains.", ""]
        lines += ["| rule | " + " | ".join(algorithms) + " |", "|---|" + "--:|" * len(algorithms)]
        for name, rule in rules().items():
            chosen = choose(own, rule)
            row = [_average(chosen, algorithm, per_domain) for algorithm in algorithms]
            lines.append(f"| {name} | " + " | ".join(row) + " |")
        lines.append("")
    return lines


def _average(chosen: dict[tuple[str, str, str, int], float], algorithm: str, per_domain: bool) -> str:
    by_trial: dict[int, list[float]] = defaultdict(list)
    by_domain: dict[str, list[float]] = defaultdict(list)
    for (_, name, domain, trial), test in chosen.items():
        if name == algorithm:
            by_trial[trial].append(test)
            by_domain[domain].append(test)
    if not by_trial:
        return "–"
    means = [float(np.mean(values)) for values in by_trial.values()]
    spread = f" ± {np.std(means) / np.sqrt(len(means)):.1f}" if len(means) > 1 else ""
    text = f"{np.mean(means):.1f}{spread}"
    if per_domain:
        text += " (" + " / ".join(f"{np.mean(values):.1f}" for values in by_domain.values()) + ")"
    return text


def main() -> int:
    """Print the tables and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.selection", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of sweeps, or files of benchmarks.fine_tuning")
    parser.add_argument("--per-domain", action="store_true", help="also print each test domain")
    arguments = parser.parse_args()
    curves = [
        run for path in arguments.runs for run in (read_curves(read_runs(path)) if path.is_dir() else read_lines(path))
    ]
    if not curves:
        print("error: there should be finished runs with one test domain, but there are none.", file=sys.stderr)
        return 2
    print("\n".join(tables(curves, arguments.per_domain)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
