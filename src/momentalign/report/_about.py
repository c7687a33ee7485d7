"""Where the numbers come from: configuration, versions, machines, and which runs there are."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pandas as pd

from momentalign.report._cases import Case, Ordered

_NOT_SHARED = {"dataset", "algorithm", "test_domains", "trial", "hparams_seed", "hparams"}
_NOT_OF_PROBES = {"encoder", "holdout", "precision", "pool"}


def configurations(ordered: Ordered) -> list[dict[str, Any]]:
    """For each case what its runs have in common, and the hyper-parameters of each method."""
    return [
        {"title": case.title, "shared": _shared(case), "hparams": _hyperparameters(case, ordered.methods)}
        for case in ordered.cases
    ]


def versions(ordered: Ordered) -> list[tuple[str, str]]:
    """Packages and machines with every version that made a run."""
    runs = ordered.sweep.runs
    names = dict.fromkeys(name for one in runs["versions"] for name in one)
    rows = [(str(name), _counted(one.get(name) for one in runs["versions"])) for name in names]
    return [*rows, ("device", _counted(runs["device"]))]


def counts(ordered: Ordered) -> list[tuple[str, ...]]:
    """A head and a row for each method: how many runs of each case are finished, and what became of the others."""
    rows: list[tuple[str, ...]] = [("method", *(case.title for case in ordered.cases))]
    missing = {case.title: missing_runs(case) for case in ordered.cases}
    diverged = ordered.sweep.diverged().index
    for method in ordered.methods:
        cells = []
        for case in ordered.cases:
            status = case.runs.loc[case.runs["method"] == method, "status"]
            found, lost = Counter(status), Counter(status[status.index.isin(diverged)])
            absent = missing[case.title].get(method, 0)
            parts = [
                f"{found[name]} {name}" + (f" ({lost[name]} diverged)" if lost[name] else "")
                for name in sorted(found, key=lambda name: _STATUS[name])
            ]
            cells.append(", ".join([*parts, *([f"{absent} missing"] if absent else [])]) or "none")
        rows.append((method, *cells))
    return rows


def missing_runs(case: Case) -> dict[str, int]:
    """Runs that one method has and another lacks, by method: what a half-finished sweep still owes.

    A probe's grid differs between methods, and only its best sets go on to more trials, so nothing is expected there.

    Args:
        case: One of the sweep's.

    Returns:
        Numbers of runs.
    """
    if case.setting == "probe":
        return {}
    columns = ["test_domains", "trial", "hparams_seed"]
    cells = {
        str(method): {(frozenset(row[0]), *row[1:]) for row in own[columns].itertuples(index=False, name=None)}
        for method, own in case.runs.groupby("method")
    }
    every = set().union(*cells.values())
    return {method: len(every - own) for method, own in cells.items()}


def training_time(runs: pd.DataFrame) -> timedelta:
    """Sum of what the runs took from start to end, unfinished ones left out."""
    total = timedelta()
    for start, end in zip(runs["started"], runs["finished"], strict=True):
        try:
            total += datetime.fromisoformat(end) - datetime.fromisoformat(start)
        except (TypeError, ValueError):
            continue
    return total


def spoken(time: timedelta) -> str:
    """A duration in the unit that suits it."""
    seconds = time.total_seconds()
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}" if seconds < 10 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


class _Status(dict[str, int]):
    def __missing__(self, key: str) -> int:
        return len(self)


_STATUS = _Status(finished=0, running=1, failed=2)


def _shared(case: Case) -> list[tuple[str, str]]:
    runs = case.runs
    trials, sets = sorted(set(runs["trial"])), runs["hparams_seed"].nunique()
    values = [
        ("domains", ", ".join(case.domains)),
        ("trials", ", ".join(map(str, trials))),
        ("sets of hyper-parameters", str(sets)),
    ]
    if case.runs["classes"].iloc[0]:
        values.append(("classes", ", ".join(case.runs["classes"].iloc[0])))
    features = [f"{one['dataset']}, by {one.get('encoder')}" for one in runs["features"] if "dataset" in one]
    if features:
        values.append(("features of", _counted(features)))
    hidden = _NOT_SHARED | (_NOT_OF_PROBES if case.setting == "probe" else set())
    names = dict.fromkeys(key for config in runs["config"] for key in config if key not in hidden)
    found = {name: _counted((config.get(name) for config in runs["config"]), "default") for name in names}
    return values + [(str(name).replace("_", " "), text) for name, text in found.items()]


def _hyperparameters(case: Case, methods: Iterable[str]) -> list[tuple[str, str, str]]:
    rows = []
    for method in methods:
        hparams = case.runs.loc[case.runs["method"] == method, "hparams"]
        names = dict.fromkeys(key for one in hparams for key in one)
        rows += [(method, str(name), _range([one[name] for one in hparams if name in one])) for name in names]
    return rows


def _range(values: list[Any]) -> str:
    different = list(dict.fromkeys(map(str, values)))
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(different) > 4 and len(numbers) == len(values):
        return f"{min(numbers):.4g} to {max(numbers):.4g} ({len(different)} values)"
    short = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in dict.fromkeys(values)]
    return ", ".join(short[:8]) + (" …" if len(short) > 8 else "")


def _counted(values: Iterable[Any], nothing: str = "not recorded") -> str:
    """Different values, with their number of runs where there are several."""
    found = Counter(nothing if value is None else str(value) for value in values)
    if len(found) == 1:
        return next(iter(found))
    parts = [f"{value} ({number} runs)" for value, number in found.most_common(6)]
    return ", ".join(parts) + (" …" if len(found) > 6 else "")
