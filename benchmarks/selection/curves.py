"""Curves of runs: accuracies on the held-out rows of the training domains, and on the test domain."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.records import Line
from momentalign._types import Array, Integers
from momentalign.runs import AVERAGED
from momentalign.selection import record_scores


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


def sweep_curves(lines: Iterable[Line]) -> Iterator[Curves]:
    """Curves of a sweep's runs with one test domain, raw weights and averaged ones."""
    for line in lines:
        info, curves, steps = line["run"], line["curves"], np.array(line["steps"])
        config = info["config"]
        if len(config["test_domains"]) != 1:
            continue
        (test,) = config["test_domains"]
        training = [name for name in info["domains"] if name != test]
        for prefix, suffix in (("", ""), (AVERAGED, "+average")):
            if f"{prefix}accuracy|out|{test}" not in curves:
                continue
            accuracy = _columns(curves, f"{prefix}accuracy|out", training)
            here = ~np.isnan(accuracy[:, 0])  # averaged weights are recorded from a later step on
            gaps = {} if prefix else {name: curves.get(f"{name}_gap||") for name in ("gradient", "hessian")}
            yield Curves(
                cell=(config["dataset"], config["algorithm"] + suffix, test, config["trial"]),
                steps=steps[here],
                accuracy=accuracy[here],
                loss=_columns(curves, f"{prefix}cross_entropy|out", training)[here],
                gaps={name: np.array(gap, dtype=float)[here] for name, gap in gaps.items() if gap is not None},
                rows=np.array([info["rows"][name]["out"] for name in training]),
                test=_columns(curves, f"{prefix}accuracy|in", [test])[here, 0],
                test_out=_columns(curves, f"{prefix}accuracy|out", [test])[here, 0],
            )


def _columns(curves: Mapping[str, Sequence[float | None]], metric: str, domains: Sequence[str]) -> Array:
    """A metric at the records of a run, one column a domain, NaN where it was not recorded."""
    return np.array([curves[f"{metric}|{name}"] for name in domains], dtype=float).T


def tuning_curves(lines: Iterable[Line]) -> Iterator[Curves]:
    """Curves of the runs that `benchmarks.fine_tuning` wrote, without losses and gaps; settings of CMA are its sets."""
    for line in lines:
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
