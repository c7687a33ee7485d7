"""Runs that cannot both be in one table."""

import json
from collections import defaultdict

import pandas as pd

from momentalign.selection._sweep import CELL, some

_ORDER = {"finished": 2, "running": 1}


def drop_clashes(runs: pd.DataFrame, records: pd.DataFrame, problems: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Keep one run a cell: a finished one before others, then the one started last.

    Args:
        runs: All runs.
        records: Their records.
        problems: Receives a line for each kind of clash.

    Returns:
        The runs and records that are left, records that were written twice only as written last.
    """
    configs = [json.dumps(config, sort_keys=True, default=str) for config in runs["config"]]
    by_hash: dict[str, set[str]] = defaultdict(set)
    for digest, config in zip(runs["hash"], configs, strict=True):
        by_hash[digest].add(config)
    for digest, different in by_hash.items():
        if len(different) > 1:
            problems.append(f"{len(different)} runs have the hash {digest} and different configurations.")
    cells: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for position, row in enumerate(runs[list(CELL)].itertuples(index=False, name=None)):
        # Test domains are a set: DomainBed writes a pair in either order.
        cells[tuple(frozenset(value) if isinstance(value, tuple) else value for value in row)].append(position)
    left_out: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for positions in cells.values():
        if len(positions) > 1:
            kept = max(positions, key=lambda i: _preference(runs, i))
            for other in positions:
                if other != kept:
                    left_out[_difference(runs["config"].iloc[kept], runs["config"].iloc[other])].append((other, kept))
    for difference, pairs in left_out.items():
        names = some([f"{runs.index[other]} (kept: {runs.index[kept]})" for other, kept in pairs])
        problems.append(
            f"Left out, as another run has the same {', '.join(CELL[:-1])}, {difference}: {names}. "
            "Sweeps that differ in more than these need folders of their own."
        )
    dropped = {other for pairs in left_out.values() for other, _ in pairs}
    if dropped:
        runs = runs[[position not in dropped for position in range(len(runs))]]
        records = records[records["run"].isin(runs.index)].reset_index(drop=True)
    records = _written_last(records, problems)
    return runs, records.assign(run=records["run"].cat.set_categories(runs.index))


def _preference(runs: pd.DataFrame, position: int) -> tuple[int, str]:
    return _ORDER.get(runs["status"].iloc[position], 0), str(runs["started"].iloc[position] or "")


def _difference(one: dict[str, object], other: dict[str, object]) -> str:
    keys = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
    return "but not the same " + ", ".join(keys) if keys else "in the same configuration"


def _written_last(records: pd.DataFrame, problems: list[str]) -> pd.DataFrame:
    """A run that went back some steps (resumed from an older state) writes records again: the last ones hold."""
    same_run = records["run"].cat.codes.diff() == 0
    back = same_run & (records["step"].diff() < 0)
    if not back.any():
        return records
    again = records.loc[back, "run"].unique()
    problems.append(f"Records written twice, the later ones hold: {some([str(name) for name in again])}.")
    keys = ["run", "step", "domain", "split", "metric", "group"]
    twice = records["run"].isin(again) & records.duplicated(keys, keep="last")
    return records[~twice].reset_index(drop=True)
