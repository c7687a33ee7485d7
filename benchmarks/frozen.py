"""Linear models on frozen features of PACS, one domain left out: `python -m benchmarks.frozen --out FILE`.

L2 is chosen by leaving out each of the training domains in turn. Finished cells of the file are not repeated.
"""

import argparse
import json
import os
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.estimators.sets import read_npz
from benchmarks.markdown import number, table
from benchmarks.probing.cells import FEATURES
from benchmarks.records import Line, RecordFile, json_lines, study_versions
from momentalign.sklearn import GroupRobustClassifier, MomentAlignedClassifier

COMPONENTS = 256
L2_FACTORS = (10.0, 100.0, 1e3, 1e4)
"""Candidates, in units of one over the rows of a fit, which is the default of all."""

METHODS: dict[str, tuple[str, Callable[[float, int], Any]]] = {
    "logistic regression": ("", lambda factor, n: LogisticRegression(C=1 / factor, max_iter=1000)),
    "domains balanced": ("domains", lambda factor, n: MomentAlignedClassifier(0.0, l2=factor / n)),
    "class and domain balanced": ("groups", lambda factor, n: GroupRobustClassifier("balanced", l2=factor / n)),
    "aligned, gradients 100": ("domains", lambda factor, n: MomentAlignedClassifier(100.0, l2=factor / n)),
    "aligned, gradients and Hessians 10": (
        "domains",
        lambda factor, n: MomentAlignedClassifier(10.0, 10.0, l2=factor / n),
    ),
}
"""What the fit is given beside the labels, and the model for an L2 factor and a number of rows."""

FROZEN = RecordFile(("domain", "method"), json_lines)


def run_cell(rows: Any, domain: str, method: str) -> Line:
    """Accuracies for each L2: on the left-out domain, and on each training domain that is left out as well."""
    sources = [name for name in np.unique(rows.domains).tolist() if name != domain]
    tests = _accuracies(rows, method, domain, [domain])
    inner = [_accuracies(rows, method, name, [domain, name]) for name in sources]
    results = [
        {"l2_factor": factor, "inner": values, "test": test}
        for factor, test, *values in zip(L2_FACTORS, tests, *inner, strict=True)
    ]
    return {"domain": domain, "method": method, "sources": sources, "results": results, "versions": study_versions()}


def _accuracies(rows: Any, method: str, test: str, left_out: list[str]) -> list[float]:
    train, tested = ~np.isin(rows.domains, left_out), rows.domains == test
    features, targets, domains = rows.features.to_numpy(), rows.targets[train], rows.domains[train]
    project = make_pipeline(StandardScaler(), PCA(COMPONENTS, svd_solver="covariance_eigh")).fit(features[train])
    fitted, unseen = project.transform(features[train]), project.transform(features[tested])
    needs, make = METHODS[method]
    groups = [f"{label}, {domain}" for label, domain in zip(targets, domains, strict=True)]
    given = {"domains": domains, "groups": groups}
    arguments = {needs: given[needs]} if needs else {}
    models = (make(factor, len(targets)).fit(fitted, targets, **arguments) for factor in L2_FACTORS)
    return [float(model.score(unseen, rows.targets[tested])) for model in models]


def frozen_table(lines: Sequence[Line]) -> str:
    """Accuracies with the L2 that left-out training domains choose, the mean, and the mean with the best L2 of each."""
    cells = {(line["method"], line["domain"]): line["results"] for line in lines}
    domains = sorted({domain for _, domain in cells})
    found = []
    for method in METHODS:
        results = [cells[method, domain] for domain in domains if (method, domain) in cells]
        if len(results) == len(domains) > 0:
            chosen = [max(each, key=lambda result: statistics.fmean(result["inner"]))["test"] for each in results]
            best = [max(result["test"] for result in each) for each in results]
            values = [*chosen, statistics.fmean(chosen), statistics.fmean(best)]
            found.append([method, *(number(100 * value) for value in values)])
    return table(["", *domains, "mean", "mean, best L2"], found)


def main() -> int:
    """Run the missing cells and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frozen", description=__doc__)
    parser.add_argument("--data", default=os.environ.get("MOMENTALIGN_DATA"), help="default: $MOMENTALIGN_DATA")
    parser.add_argument("--methods", default=";".join(METHODS), help="separated by semicolons (default: all)")
    parser.add_argument("-o", "--out", type=Path, default=Path("pacs-frozen.jsonl"), help="file of finished cells")
    given = parser.parse_args()
    if given.data is None:
        parser.error("no data folder: pass --data or set MOMENTALIGN_DATA.")
    if unknown := sorted(set(given.methods.split(";")) - set(METHODS)):
        parser.error(f"--methods should name some of {'; '.join(METHODS)}, but has {'; '.join(unknown)}.")
    rows = read_npz(Path(given.data) / FEATURES)
    done = {FROZEN.key_of(line) for line in json_lines(given.out)} if given.out.exists() else set()
    for method in given.methods.split(";"):
        for domain in np.unique(rows.domains).tolist():
            if (domain, method) not in done:
                line = json.dumps(run_cell(rows, domain, method))
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
                print(f"{domain}, {method}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
