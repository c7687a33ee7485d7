"""DomainBed's run folders: `results.jsonl` with one JSON object per record, and an empty file `done` when finished."""

import re
from pathlib import Path
from typing import Any

from momentalign.runs._records import RecordRow, ignored_lines, parse_record, read_lines
from momentalign.runs._run_json import RunState, UnreadableRunError

# Domain i of DomainBed is the i-th name here; sets that are not listed keep its numbers.
_DATASETS = {
    "ColoredMNIST": ("colored-mnist", ("+90%", "+80%", "-90%")),
    "RotatedMNIST": ("rotated-mnist", ("0", "15", "30", "45", "60", "75")),
    "VLCS": ("vlcs", ("Caltech101", "LabelMe", "SUN09", "VOC2007")),
    "PACS": ("pacs", ("art_painting", "cartoon", "photo", "sketch")),
    "OfficeHome": ("office-home", ("Art", "Clipart", "Product", "Real World")),
    "TerraIncognita": ("terra-incognita", ("location_100", "location_38", "location_43", "location_46")),
    "DomainNet": ("domain-net", ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")),
}
_RESULTS = "results.jsonl"
_ACCURACY = re.compile(r"env(\d+)_(\w+)_acc")
_STEP_LEVEL = {"step_time": "step_seconds", "mem_gb": "memory_gib"}
_NOT_RECORDS = {"args", "hparams", "step", "epoch"}


def read_domainbed(folder: Path) -> tuple[dict[str, Any], list[RecordRow], list[str]]:
    """Read one run of DomainBed: its columns, its records and what was ignored."""
    path = folder / _RESULTS
    lines, bad, torn = read_lines(path, dict)
    problems = ignored_lines(_RESULTS, bad, torn)
    if not lines:
        raise UnreadableRunError(path, "holds no record", RunState.DAMAGED)
    try:
        args = lines[-1]["args"]
        dataset, names = _DATASETS.get(args["dataset"], (str(args["dataset"]), ()))
        count = len({m[1] for key in lines[-1] if (m := _ACCURACY.fullmatch(key))})
        domains = tuple(names) if len(names) >= count else tuple(f"env{i}" for i in range(count))
        row = {
            "dataset": dataset,
            "algorithm": str(args["algorithm"]).lower(),
            "test_domains": tuple(domains[_whole(i)] for i in args["test_envs"]),
            "trial": _whole(args["trial_seed"]),
            "hparams_seed": _whole(args["hparams_seed"]),
            "hparams": dict(lines[-1].get("hparams", {})),
            "steps": _whole(args.get("steps") or max(line["step"] for line in lines) + 1),
            "config": args,
            "domains": domains,
        }
        records = [record for line in lines for record in _records(line, domains)]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        reason = f"is not DomainBed's ({type(error).__name__}: {error})"
        raise UnreadableRunError(path, reason, RunState.DAMAGED) from None
    unknown = dict.fromkeys(("encoder", "error", "diverged_at", "device", "started", "finished", "num_classes", "data"))
    empty: dict[str, Any] = {"classes": (), "versions": {}, "features": {}, "rows": {}, "group_rows": {}}
    status = RunState.FINISHED if (folder / "done").exists() else RunState.RUNNING
    own = {"setting": "finetune", "status": status, "hash": folder.name, "folder": folder}
    return {**row, **unknown, **empty, **own}, records, problems


def _whole(value: Any) -> int:
    """Check a whole number."""
    return parse_record({"step": value, "metric": ""})[0]


def _records(line: dict[str, Any], domains: tuple[str, ...]) -> list[RecordRow]:
    step = _whole(line["step"])
    records: list[RecordRow] = []
    for key, value in line.items():
        accuracy = _ACCURACY.fullmatch(key)
        if accuracy:
            records.append((step, domains[int(accuracy[1])], accuracy[2], "accuracy", None, float(value)))
        elif key not in _NOT_RECORDS and (isinstance(value, int | float) or (key == "loss" and value is None)):
            number = None if value is None else float(value)
            records.append((step, None, None, _STEP_LEVEL.get(key, key), None, number))
    return records
