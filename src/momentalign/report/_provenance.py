"""Provenance of the numbers: configuration, versions, devices, counts of runs."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from momentalign._format import pluralize
from momentalign.algorithms import PLAIN_MODELS
from momentalign.report._cases import Case, GroupedSweep
from momentalign.runs import RunState

_NOT_SHARED = {"dataset", "algorithm", "test_domains", "trial", "hparams_seed", "hparams"}
_NOT_OF_PROBES = {"encoder", "holdout", "precision", "pool"}
_STATUS_ORDER = (RunState.FINISHED, RunState.RUNNING, RunState.FAILED)


def configurations(grouped: GroupedSweep) -> list[dict[str, Any]]:
    """Shared settings of each case, and the hyper-parameters of each method."""
    return [
        {"title": case.title, "shared": _shared_settings(case), "hparams": _hyperparameters(case, grouped.methods)}
        for case in grouped.cases
    ]


def recorded_versions(grouped: GroupedSweep) -> list[tuple[str, str]]:
    """Versions of packages and the devices, as recorded by the runs."""
    runs = grouped.sweep.runs
    names = dict.fromkeys(name for versions in runs["versions"] for name in versions)
    rows = [(str(name), _distinct(versions.get(name) for versions in runs["versions"])) for name in names]
    return [*rows, ("device", _distinct(runs["device"]))]


def run_counts(grouped: GroupedSweep) -> list[tuple[str, ...]]:
    """Table of runs by method and case: a header, then how many are finished, failed, diverged or missing."""
    rows: list[tuple[str, ...]] = [("method", *(case.title for case in grouped.cases))]
    missing = [missing_runs(case) for case in grouped.cases]
    diverged = grouped.sweep.diverged().index
    for method in grouped.methods:
        cells = []
        for case, absent in zip(grouped.cases, missing, strict=True):
            status = case.runs.loc[case.runs["method"] == method, "status"]
            count, lost = Counter(status), Counter(status[status.index.isin(diverged)])
            known = [name for name in _STATUS_ORDER if count[name]]
            parts = [
                f"{count[name]} {name}" + (f" ({lost[name]} diverged)" if lost[name] else "")
                for name in dict.fromkeys([*known, *count])
            ]
            parts += [f"{absent[method]} missing"] if absent.get(method) else []
            cells.append(", ".join(parts) or "none")
        rows.append((method, *cells))
    return rows


def missing_runs(case: Case) -> dict[str, int]:
    """Number of runs that other methods have and this one lacks, by method.

    Empty for probes: their grids differ between methods, and only the best sets are repeated in more trials.
    """
    if case.setting == "probe":
        return {}
    columns = ["test_domains", "trial", "hparams_seed"]
    cells = {
        str(method): {(frozenset(row[0]), *row[1:]) for row in own[columns].itertuples(index=False, name=None)}
        for method, own in case.runs.groupby("method")
    }
    every = set().union(*cells.values())
    once = {cell for cell in every if cell[-1] == 0}  # a plain model has one set
    plain = PLAIN_MODELS.values()
    return {method: len((once if method in plain else every) - own) for method, own in cells.items()}


def _shared_settings(case: Case) -> list[tuple[str, str]]:
    runs = case.runs
    values = [
        ("domains", ", ".join(case.domains)),
        ("trials", ", ".join(map(str, sorted(set(runs["trial"]))))),
        ("sets of hyper-parameters", str(runs["hparams_seed"].nunique())),
    ]
    if runs["classes"].iloc[0]:
        values.append(("classes", ", ".join(runs["classes"].iloc[0])))
    features = [f"{one['dataset']}, by {one.get('encoder')}" for one in runs["features"] if "dataset" in one]
    if features:
        values.append(("features of", _distinct(features)))
    hidden = _NOT_SHARED | (_NOT_OF_PROBES if case.setting == "probe" else set())
    names = dict.fromkeys(key for config in runs["config"] for key in config if key not in hidden)
    for name in names:
        text = _distinct((config.get(name) for config in runs["config"]), "default")
        values.append((str(name).replace("_", " "), text))
    return values


def _hyperparameters(case: Case, methods: Iterable[str]) -> list[tuple[str, str, str]]:
    rows = []
    for method in methods:
        hparams = case.runs.loc[case.runs["method"] == method, "hparams"]
        names = dict.fromkeys(key for own in hparams for key in own)
        rows += [(method, str(name), _range([own[name] for own in hparams if name in own])) for name in names]
    return rows


def _range(values: list[Any]) -> str:
    distinct = list(dict.fromkeys(map(str, values)))
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(distinct) > 4 and len(numbers) == len(values):
        return f"{min(numbers):.4g} to {max(numbers):.4g} ({len(distinct)} values)"
    short = list(dict.fromkeys(f"{value:.4g}" if isinstance(value, float) else str(value) for value in values))
    return ", ".join(short[:8]) + (" …" if len(short) > 8 else "")


def _distinct(values: Iterable[Any], missing: str = "not recorded") -> str:
    """Distinct values, with their number of runs if there are several."""
    counts = Counter(missing if value is None else str(value) for value in values)
    if len(counts) == 1:
        return next(iter(counts))
    parts = [f"{value} ({pluralize(number, 'run')})" for value, number in counts.most_common(6)]
    return ", ".join(parts) + (" …" if len(counts) > 6 else "")
