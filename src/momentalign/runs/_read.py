"""Read folders of runs into data frames. What cannot be read is listed and left out."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from momentalign._format import join_first
from momentalign.runs._domainbed import read_domainbed
from momentalign.runs._planned import read_planned
from momentalign.runs._records import RECORDS, RecordRow, ignored_lines, parse_record, read_lines
from momentalign.runs._run_json import RunState, UnreadableRunError, read_run
from momentalign.runs._sweep import Sweep, drop_clashes, planned_frame, records_frame, runs_frame

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 3
_DIVERGED = 10
_FILES = ("run.json", "results.jsonl", "records.jsonl")


def read_runs(folders: str | Path | Iterable[str | Path]) -> Sweep:
    """Read all runs in one or more folders.

    A run is a folder with `run.json` and `records.jsonl`, or one of DomainBed's with `results.jsonl`. A given folder
    is a run itself or holds runs. Runs that are unfinished, failed, diverged, unreadable, or of the same cell
    as another run are listed in `problems`; the last two kinds are left out.

    Args:
        folders: One folder or several.

    Returns:
        The runs and their records.

    Raises:
        ValueError: If a folder does not exist, or none of them holds a run that can be read.
    """
    given = [Path(folders)] if isinstance(folders, str | Path) else [Path(folder) for folder in folders]
    problems: list[str] = []
    paths: dict[Path, None] = {}  # in order, each once
    for folder in given:
        if not folder.is_dir():
            what = "is a file" if folder.exists() else "does not exist"
            raise ValueError(f"{folder} should be a folder of runs, but {what}.")
        runs = _run_folders(folder)
        if not runs:
            problems.append(f"{folder} holds no runs: no folder in it has a run.json or a results.jsonl.")
        paths |= dict.fromkeys(path.resolve() for path in runs)
    if not paths:
        raise ValueError(" ".join(problems) + " Make a sweep with 'momentalign sweep'.")
    runs, records = _read(_named(list(paths)), problems)
    _list_unfinished(runs, problems)
    _list_empty(runs, records, problems)
    _list_other_data(runs, problems)
    sweep = Sweep(runs, records, problems)
    _list_diverged(sweep)
    planned = read_planned(given, [path.name for path in paths], problems)
    return replace(sweep, planned=planned_frame(planned))


def _read(folders: list[tuple[str, Path]], problems: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read runs and records, one run a cell; raises ValueError if no run can be read."""
    rows: dict[str, dict[str, Any]] = {}
    records: dict[str, list[RecordRow]] = {}
    for name, path in folders:
        try:
            if (path / "run.json").exists():
                rows[name], (records[name], notes) = _run_row(path), _records(path)
            elif (path / "results.jsonl").exists():
                rows[name], records[name], notes = read_domainbed(path)
            else:
                raise UnreadableRunError(path / "run.json", "does not exist", RunState.NEW)
        except UnreadableRunError as error:
            notes = [f"its {error.path.name} {error.reason}; left out."]
        except OSError as error:
            notes = [f"its {Path(error.filename).name} cannot be read ({error.strerror}); left out."]
        problems += [f"{name}: {note}" for note in notes]
    if not rows:
        more = len(problems) - _SHOWN
        shown = " ".join(problems[:_SHOWN]) + (f" And {more} more like these." if more > 0 else "")
        raise ValueError(f"None of the runs can be read. {shown}")
    return drop_clashes(runs_frame(rows), records_frame(records), problems)


def _records(folder: Path) -> tuple[list[RecordRow], list[str]]:
    """Records of a run, none before its first, and what was ignored."""
    try:
        records, bad, torn = read_lines(folder / RECORDS, parse_record)
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"its {RECORDS} cannot be read ({error.strerror})."]
    return records, ignored_lines(RECORDS, bad, torn)


def _run_folders(folder: Path) -> list[Path]:
    """The folder itself if it is a run, else the runs in it, sorted by name."""
    if _is_run(folder):
        return [folder]
    inside = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith(".")]
    return sorted(path for path in inside if _is_run(path))


def _is_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in _FILES)


def _named(paths: list[Path]) -> list[tuple[str, Path]]:
    """Runs by the names of their folders where these are unique, else by longer ones."""
    for names in ([path.name for path in paths], [f"{path.parent.name}/{path.name}" for path in paths]):
        if len(set(names)) == len(names):
            return list(zip(names, paths, strict=True))
    return [(path.as_posix(), path) for path in paths]


def _run_row(folder: Path) -> dict[str, Any]:
    """The columns of a run, from its run.json."""
    info = read_run(folder)
    try:
        config = info["config"]
        return {
            "dataset": config["dataset"],
            "algorithm": config["algorithm"],
            "test_domains": tuple(config["test_domains"]),
            "trial": config["trial"],
            "hparams_seed": config["hparams_seed"],
            "hparams": dict(config["hparams"]),
            "steps": config["steps"],
            "encoder": config.get("encoder"),
            "setting": config.get("setting", "finetune"),
            "status": info["status"],
            "error": info.get("error"),
            "diverged_at": info.get("diverged_at"),
            "domains": tuple(info["domains"]),
            "device": info.get("device"),
            "started": info.get("started"),
            "finished": info.get("finished"),
            "hash": info["hash"],
            "folder": folder,
            "config": config,
            "num_classes": info.get("num_classes"),
            "classes": tuple(info.get("classes") or ()),
            "versions": {"momentalign": info.get("momentalign"), **(info.get("versions") or {})},
            "data": info.get("data"),
            "features": info.get("features") or {},
            "rows": info.get("rows") or {},
            "group_rows": info.get("group_rows") or {},
        }
    except KeyError as error:
        raise UnreadableRunError(folder / "run.json", f"lacks {error}", RunState.DAMAGED) from None


def _list_unfinished(runs: pd.DataFrame, problems: list[str]) -> None:
    failed = runs[runs["status"] == RunState.FAILED]
    for error, same in failed.groupby("error", sort=False, dropna=False):
        names = [str(run) for run in same.index]
        problems.append(
            f"{names[0]}: failed ({error})."
            if len(names) == 1
            else f"Failed, {len(names)} of {len(runs)} runs ({error}): {join_first(names)}."
        )
    unfinished = [str(run) for run in runs.index[~runs["status"].isin([RunState.FINISHED, RunState.FAILED])]]
    if unfinished:
        problems.append(f"Unfinished, {len(unfinished)} of {len(runs)} runs: {join_first(unfinished)}.")


def _list_empty(runs: pd.DataFrame, records: pd.DataFrame, problems: list[str]) -> None:
    written = set(records["run"].unique())
    finished = runs.index[runs["status"] == RunState.FINISHED]
    empty = [str(run) for run in finished if run not in written]
    if empty:
        problems.append(
            f"Finished, but without a readable record, {len(empty)} of {len(runs)} runs: {join_first(empty)}."
        )


def _list_other_data(runs: pd.DataFrame, problems: list[str]) -> None:
    known = runs[runs["data"].notna()]
    for dataset, own in known.groupby("dataset", sort=False):
        first = own.loc[own["started"].astype(str).idxmin(), "data"]
        other = [str(run) for run in own.index[own["data"] != first]]
        if other:
            problems.append(
                f"{dataset} changed between runs, which should not be compared: {len(other)} of {len(own)} are on its "
                f"later content: {join_first(other)}."
            )


def _list_diverged(sweep: Sweep) -> None:
    """One line for each of the first runs, one for the rest; failed runs are listed with their error already."""
    steps = sweep.diverged()
    steps = steps[(sweep.runs.loc[steps.index, "status"] != RunState.FAILED).to_numpy()]
    for run, step in steps.iloc[:_DIVERGED].items():
        sweep.problems.append(
            f"{run}: {sweep.runs.at[run, 'algorithm']} diverged; from the record at step {step} on its loss is not "
            "finite and its accuracies do not count."
        )
    rest = [str(run) for run in steps.index[_DIVERGED:]]
    if rest:
        sweep.problems.append(f"Also diverged, {len(rest)} of {len(sweep.runs)} runs: {join_first(rest)}.")
