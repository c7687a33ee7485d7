"""Runs in a sweep's folder that could not stand in one table with those that are planned."""

import json
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from momentalign.selection._sweep import CELL
from momentalign.sweep._plan import Plan


def find_clashes(plan: Plan, out: Path) -> dict[str, int]:
    """Look for runs of the same data set, algorithm, test domains, trial and set that differ in something else.

    Args:
        plan: What is to be run.
        out: The sweep's folder, which may not exist.

    Returns:
        How many runs there differ in what: names of settings, with commas.
    """
    runs = (*plan.runs, *chain(*plan.finals.values()))
    planned = {_cell(config): config for config in (run.to_dict() for run in runs)}
    hashes = {run.hash() for run in runs}
    found: Counter[str] = Counter()
    for path in out.glob("*/run.json"):
        if path.parent.name in hashes:
            continue
        try:
            config = json.loads(path.read_bytes())["config"]
            ours = planned.get(_cell(config))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # no run that could be in a table
        if ours is not None:
            names = sorted(name for name in {**ours, **config} if ours.get(name) != config.get(name))
            found[", ".join(names)] += 1
    return dict(found)


def _cell(config: Mapping[str, Any]) -> tuple[object, ...]:
    values = {"setting": "finetune", **config}
    return tuple(frozenset(values[name]) if name == "test_domains" else values[name] for name in CELL)
