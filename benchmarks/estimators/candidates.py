"""Scores of all candidates of the search on every set: `python -m benchmarks.estimators.candidates`.

Other rules than the search's can be compared with them without another fit. A line of the output is a cell: scores of
each candidate on the folds of training domains left out in turn, and on the cell's test domains after a fit on all
training rows.
"""

import argparse
import json
import os
import platform
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import joblib  # type: ignore[import-untyped]
import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.metrics import root_mean_squared_error

import momentalign
from benchmarks.estimators.cells import SMALL_DRAWS, Cell, draw_rows, outer_folds, plan_cells
from benchmarks.estimators.sets import SETS, parse_sets, prepare, read_set
from benchmarks.records import json_lines
from momentalign.sklearn import MomentAlignedClassifier, MomentAlignedRegressor

PLAIN_FACTORS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
FACTORS = (0.01, 0.1, 1.0, 10.0, 100.0)
LEAST_DOMAINS = 3

Scores = dict[str, list[float]]
"""Scores by their names, one for each fold or domain."""


class Candidate(NamedTuple):
    """A model, L2 in units of 1/n.

    Kinds: `plain`, all rows alike; `alike`, domains alike; `aligned`, domains alike with a gradient weight of 1;
    `intercepts`, all rows alike, with an intercept for each domain.
    """

    kind: str
    factor: float

    def __str__(self) -> str:
        return f"{self.kind} {self.factor:g}"


INCUMBENT = Candidate("plain", 1.0)
CANDIDATES = (
    *(Candidate("plain", factor) for factor in PLAIN_FACTORS),
    *(Candidate(kind, factor) for kind in ("alike", "aligned", "intercepts") for factor in FACTORS),
)


def run_candidates(cell: Cell, root: Path) -> dict[str, Any]:
    """Scores of all candidates in a cell: `inner` on left-out training domains, `outer` on the test domains."""
    frame, y, domains = read_set(cell.set, root)
    train, test = outer_folds(domains)[cell.fold]
    train = train[draw_rows(domains, cell.draw)[train]]
    pipeline = prepare(cell.set).fit(frame.iloc[train])
    X, X_test = (pipeline.transform(frame.iloc[index]) for index in (train, test))
    number, regression = len(np.unique(domains[train])), SETS[cell.set].regression
    inner: dict[str, Scores] = {}
    outer: dict[str, Scores] = {}
    for candidate in CANDIDATES:
        folds = outer_folds(domains[train]) if number >= LEAST_DOMAINS else []
        parts = [
            score_parts(
                _fit(candidate, X[fit], y[train][fit], domains[train][fit], regression=regression),
                X[left],
                y[train][left],
                np.zeros(len(left)),
            )
            for fit, left in folds
        ]
        inner[str(candidate)] = _joined(parts)
        model = _fit(candidate, X, y[train], domains[train], regression=regression)
        outer[str(candidate)] = score_parts(model, X_test, y[test], domains[test])
    versions = {
        "momentalign": momentalign.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }
    return {"cell": str(cell), "domains": number, "inner": inner, "outer": outer, "versions": versions}


def _fit(candidate: Candidate, X: Any, y: Any, domains: Any, *, regression: bool) -> Any:
    kind = MomentAlignedRegressor if regression else MomentAlignedClassifier
    weight = 1.0 if candidate.kind == "aligned" else 0.0
    model = kind(gradient_weight=weight, l2=candidate.factor / len(X), tol=1e-5)
    indicators = np.asarray(domains)[:, None] == np.unique(domains)
    features = np.hstack([X, indicators]) if candidate.kind == "intercepts" else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # plain models have no domains on purpose
        model.fit(features, y, **({"domains": domains} if candidate.kind in ("alike", "aligned") else {}))
    model.coef_, model.n_features_in_ = model.coef_[..., : X.shape[1]], X.shape[1]
    return model


def score_parts(model: Any, X: NDArray[Any], y: NDArray[Any], parts: NDArray[Any]) -> Scores:
    """Scores of a fitted model on each part of the rows; larger is better but for RMSE."""
    predicted = model.predict(X)
    log_probabilities = model.predict_log_proba(X) if hasattr(model, "predict_log_proba") else None
    scores: Scores = {}
    for part in np.unique(parts):
        rows = parts == part
        found: dict[str, float]
        if log_probabilities is None:
            found = {"RMSE": root_mean_squared_error(y[rows], predicted[rows])}
        else:
            columns = np.searchsorted(model.classes_, y[rows])
            own = log_probabilities[rows][np.arange(rows.sum()), columns]
            hits = (y[rows] == predicted[rows]).astype(float)
            found = {
                "accuracy": hits.mean(),
                "balanced accuracy": _class_mean(hits, columns),
                "class log loss": _class_mean(own, columns),
            }
        for name, value in found.items():
            scores.setdefault(name, []).append(float(value))
    return scores


def _class_mean(values: NDArray[np.float64], classes: NDArray[np.intp]) -> float:
    """Mean over the classes that occur of the mean within each."""
    return float(np.mean([values[classes == c].mean() for c in np.unique(classes)]))


def _joined(parts: Sequence[Mapping[str, list[float]]]) -> Scores:
    return {name: [value for part in parts for value in part[name]] for name in parts[0]} if parts else {}


def missing_cells(sets: Sequence[str], out: Path, root: Path) -> Iterator[Cell]:
    """Cells that are not in the file yet."""
    done = {line["cell"] for line in json_lines(out)} if out.exists() else set()
    cells = plan_cells(sets, range(SMALL_DRAWS + 1), root)
    yield from (cell for cell in cells if str(cell) not in done)


def main() -> int:
    """Run the missing cells and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.estimators.candidates", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--data", default=os.environ.get("MOMENTALIGN_DATA"), help="data folder (default: $MOMENTALIGN_DATA)"
    )
    parser.add_argument("-o", "--out", type=Path, default=Path("candidates.jsonl"), help="file of finished cells")
    parser.add_argument("--sets", type=parse_sets, default=list(SETS), help="sets, separated by commas (default: all)")
    parser.add_argument("--jobs", type=int, default=1, help="processes of one thread each (default: 1)")
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("no data folder: pass --data or set MOMENTALIGN_DATA.")
    root = Path(arguments.data)
    try:
        cells = list(missing_cells(arguments.sets, arguments.out, root))
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        lines = joblib.Parallel(n_jobs=arguments.jobs, return_as="generator_unordered")(
            joblib.delayed(run_candidates)(cell, root) for cell in cells
        )
        for number, line in enumerate(lines, 1):
            with arguments.out.open("a", encoding="utf-8") as out:
                out.write(json.dumps(line) + "\n")
            print(f"{number}/{len(cells)} {line['cell']}", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
