"""Folders of runs into frames. What cannot be read is named, the rest goes on."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from momentalign.selection._clashes import drop_clashes
from momentalign.selection._domainbed import Record, read_domainbed
from momentalign.selection._planned import read_planned
from momentalign.selection._records import frame_of, read_records
from momentalign.selection._sweep import FORMAT, Sweep, UnreadableError, runs_frame, some

_SHOWN = 3
_DIVERGED = 10
_MARKS = ("run.json", "results.jsonl", "records.jsonl")


def read_runs(folders: str | Path | Iterable[str | Path]) -> Sweep:
    """Read all runs in one or more folders.

    A run is a folder with `run.json` and `records.jsonl`, or one of DomainBed's with `results.jsonl`. A given folder
    is a run itself or holds runs. Runs that are unfinished, failed, diverged, unreadable, or of the same cell
    as another run are named in `problems`; the last two kinds are left out.

    Args:
        folders: One folder or several.

    Returns:
        The runs and their records.

    Raises:
        ValueError: If a folder does not exist, or none of them holds a run that can be read.
    """
    given = [Path(folders)] if isinstance(folders, str | Path) else [Path(folder) for folder in folders]
    problems: list[str] = []
    found: dict[Path, None] = {}  # in order, each once
    for folder in given:
        if not folder.is_dir():
            what = "is a file" if folder.exists() else "does not exist"
            raise ValueError(f"{folder} should be a folder of runs, but {what}.")
        runs = _run_folders(folder)
        if not runs:
            problems.append(f"{folder} holds no runs: no folder in it has a run.json or a results.jsonl.")
        found |= dict.fromkeys(path.resolve() for path in runs)
    if not found:
        raise ValueError(" ".join(problems) + " A sweep is made with 'momentalign sweep'.")
    sweep = _read(_named(list(found)), problems)
    if sweep.runs.empty:
        more = len(problems) - _SHOWN
        shown = " ".join(problems[:_SHOWN]) + (f" And {more} more like these." if more > 0 else "")
        raise ValueError(f"None of the runs can be read. {shown}")
    planned = read_planned(given, [path.name for path in found], problems)
    return Sweep(sweep.runs, sweep.records, problems, planned)


def _read(found: list[tuple[str, Path]], problems: list[str]) -> Sweep:
    rows: list[dict[str, Any]] = []
    names: list[str] = []
    files: list[tuple[str, Path]] = []
    upstream: list[tuple[int, Record]] = []
    for name, path in found:
        try:
            if (path / "run.json").exists():
                row = _run(path)
                files.append((name, path / "records.jsonl"))
            elif (path / "results.jsonl").exists():
                row, records, left_out = read_domainbed(path)
                upstream += [(len(names), record) for record in records]
                problems += [f"{name}: {line}" for line in left_out]
            else:
                raise UnreadableError("it has records but no run.json that says of what")
        except UnreadableError as error:
            problems.append(f"{name}: {error}; left out.")
            continue
        except OSError as error:
            problems.append(f"{name}: cannot be read ({error.strerror}); left out.")
            continue
        rows.append(row)
        names.append(name)
    runs = runs_frame(rows, names)
    records, left_out = read_records(files)
    problems += left_out
    if upstream:
        others = frame_of([(run, *record) for run, record in upstream], names)
        records = _join(records, others, names) if len(files) else others
    runs, records = drop_clashes(runs, records, problems)
    _name_unfinished(runs, problems)
    _name_empty(runs, records, problems)
    _name_other_data(runs, problems)
    sweep = Sweep(runs, records, problems)
    _name_diverged(sweep)
    return sweep


def _run_folders(folder: Path) -> list[Path]:
    """The folder itself if it is a run, else the runs in it in the order of their names."""
    if _is_run(folder):
        return [folder]
    inside = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith(".")]
    return sorted(path for path in inside if _is_run(path))


def _is_run(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in _MARKS)


def _named(paths: list[Path]) -> list[tuple[str, Path]]:
    """Runs by the names of their folders where these are enough to tell them apart, else by longer ones."""
    for names in ([path.name for path in paths], [f"{path.parent.name}/{path.name}" for path in paths]):
        if len(set(names)) == len(names):
            return list(zip(names, paths, strict=True))
    return [(path.as_posix(), path) for path in paths]


def _run(folder: Path) -> dict[str, Any]:
    try:
        about = json.loads((folder / "run.json").read_bytes())
    except ValueError:
        raise UnreadableError("its run.json is not JSON") from None
    if not isinstance(about, dict):
        raise UnreadableError("its run.json holds something else than a run")
    try:
        form = about["format"]
        if form != FORMAT:
            newer = isinstance(form, int) and form > FORMAT
            raise UnreadableError(
                f"its run.json has format {form!r}, this version reads {FORMAT}"
                + (f" (written by momentalign {about.get('momentalign')}: update momentalign)" if newer else "")
            )
        config = about["config"]
        return {
            "dataset": str(config["dataset"]),
            "algorithm": str(config["algorithm"]),
            "test_domains": tuple(str(name) for name in config["test_domains"]),
            "trial": int(config["trial"]),
            "hparams_seed": int(config["hparams_seed"]),
            "hparams": dict(config["hparams"]),
            "steps": int(config["steps"]),
            "encoder": config.get("encoder"),
            "setting": config.get("setting", "finetune"),
            "status": str(about["status"]),
            "error": about.get("error"),
            "domains": tuple(str(name) for name in about["domains"]),
            "device": about.get("device"),
            "started": about.get("started"),
            "finished": about.get("finished"),
            "hash": str(about["hash"]),
            "folder": folder,
            "config": config,
            "num_classes": about.get("num_classes"),
            "classes": tuple(str(name) for name in about.get("classes") or ()),
            "versions": {"momentalign": about.get("momentalign"), **(about.get("versions") or {})},
            "data": about.get("data"),
            "features": {str(key): str(value) for key, value in dict(about.get("features") or {}).items()},
        }
    except KeyError as error:
        raise UnreadableError(f"its run.json lacks {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise UnreadableError(f"its run.json holds something else than a run ({error})") from None


def _join(first: pd.DataFrame, second: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Both frames as one, with categories in common."""
    joined = {}
    for column in first.columns:
        if column in ("step", "value"):
            joined[column] = pd.concat([first[column], second[column]], ignore_index=True)
            continue
        both = pd.api.types.union_categoricals([first[column], second[column]])
        joined[column] = both.set_categories(names) if column == "run" else both
    return pd.DataFrame(joined)


def _name_unfinished(runs: pd.DataFrame, problems: list[str]) -> None:
    for run, status, error in zip(runs.index, runs["status"], runs["error"], strict=True):
        if status == "failed":
            problems.append(f"{run}: failed ({error}).")
    unfinished = [str(run) for run in runs.index[~runs["status"].isin(["finished", "failed"])]]
    if unfinished:
        problems.append(f"Unfinished, {len(unfinished)} of {len(runs)} runs: {some(unfinished)}.")


def _name_empty(runs: pd.DataFrame, records: pd.DataFrame, problems: list[str]) -> None:
    written = set(records["run"].unique())
    finished = runs.index[runs["status"] == "finished"]
    empty = [str(run) for run in finished if run not in written]
    if empty:
        problems.append(
            f"Finished, but without a record that can be read, {len(empty)} of {len(runs)} runs: {some(empty)}."
        )


def _name_other_data(runs: pd.DataFrame, problems: list[str]) -> None:
    known = runs[runs["data"].notna()]
    for dataset, own in known.groupby("dataset", sort=False):
        first = own.loc[own["started"].astype(str).idxmin(), "data"]
        other = [str(run) for run in own.index[own["data"] != first]]
        if other:
            problems.append(
                f"{dataset} changed between runs, which should not be compared: {len(other)} of {len(own)} are on what "
                f"it held later: {some(other)}."
            )


def _name_diverged(sweep: Sweep) -> None:
    """A line for each of the first runs, one for the rest; of failed ones their error says it."""
    steps = sweep.diverged()
    steps = steps[(sweep.runs.loc[steps.index, "status"] != "failed").to_numpy()]
    for run, step in steps.iloc[:_DIVERGED].items():
        sweep.problems.append(
            f"{run}: {sweep.runs.at[run, 'algorithm']} diverged; from the record at step {step} on its loss is not a "
            "number and its accuracies do not count."
        )
    rest = [str(run) for run in steps.index[_DIVERGED:]]
    if rest:
        sweep.problems.append(f"Diverged as well, {len(rest)} of {len(sweep.runs)} runs: {some(rest)}.")
