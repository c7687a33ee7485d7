"""Records: one JSON object a line, ours in `records.jsonl`, with one number each."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, TypeVar

RECORDS = "records.jsonl"
AVERAGED = "averaged_"
"""Prefix of the metrics of averaged weights, which a run records beside those of its raw weights."""

RecordRow = tuple[int, str | None, str | None, str, str | None, float | None]
"""Step, domain, split, metric, group and value of a record."""
_T = TypeVar("_T")


class Record(TypedDict, total=False):
    """One number of a run; `group` only where it is one group's."""

    step: int
    domain: str | None
    split: str | None
    metric: str
    value: float | None
    group: str


def read_lines(path: Path, parse: Callable[[Any], _T]) -> tuple[list[_T], list[int], bool]:
    """Parse one JSON value a line: results, numbers of the lines that cannot be read, whether a crash cut the last."""
    lines = path.read_bytes().split(b"\n")
    parsed, bad = [], []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                parsed.append(parse(json.loads(line)))
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
                bad.append(number)
    torn = bad[-1:] == [len(lines)]
    return parsed, bad[: len(bad) - torn], torn


def ignored_lines(file: str, bad: Sequence[int], torn: bool) -> list[str]:
    """Messages on lines that cannot be read."""
    several = f"{len(bad)} lines (the first is line {bad[0]}) of its {file} cannot be read and are" if bad else ""
    notes = [f"line {bad[0]} of its {file} cannot be read and is" if len(bad) == 1 else several] if bad else []
    return [f"{note} ignored." for note in (*notes, *[f"the last line of its {file} is incomplete and"] * torn)]


def read_records(folder: Path) -> list[Record]:
    """Read a run's records, without a last line that a crash cut off.

    Raises ValueError with the path and the number of a damaged line.
    """

    def checked(fields: Any) -> Record:
        parse_record(fields)
        record: Record = fields
        return record

    records, bad, _ = read_lines(folder / RECORDS, checked)
    if bad:
        raise ValueError(
            f"{folder / RECORDS}, line {bad[0]} should be a record, but cannot be read. Remove {folder} and run the "
            "same command again."
        )
    return records


def parse_record(fields: Mapping[str, Any]) -> RecordRow:
    """Check the values of a record; raises one of the errors that :func:`read_lines` expects."""
    step, value, metric = fields["step"], fields.get("value"), fields["metric"]
    domain, split, group = (fields.get(name) for name in ("domain", "split", "group"))
    numbers = type(step) in (int, float) and (value is None or type(value) in (int, float))
    texts = isinstance(metric, str) and all(text is None or isinstance(text, str) for text in (domain, split, group))
    # Steps are below 2^53, so that charts and sums hold them exactly.
    if not (numbers and texts and 0 <= step < 2**53 and int(step) == step):
        raise ValueError(f"not a record: {fields}")
    return int(step), domain, split, metric, group, None if value is None else float(value)


def weights_note(saved: Mapping[str, Any], steps: int) -> str | None:
    """Which weights a finished run has saved, from its `run.json`; None if they are simply the last."""
    averaged = "" if saved["average"] == "none" else f", averaged ({saved['average']})"
    if saved["keep"] == "last":
        return f"The saved weights are those of the last record{averaged}." if averaged else None
    reach = f" with reach {saved['reach']:g}" if "reach" in saved else ""
    return (
        f"The saved weights are those of step {saved['step']} of {steps}{averaged}: the best record by {saved['keep']} "
        f"selection{reach}, score {100 * saved['score']:.1f}."
    )


def saved_records(records: Sequence[Record], saved: Mapping[str, Any]) -> list[Record]:
    """Records of the weights that a run has saved, with the names of raw weights' metrics."""
    prefix = "" if saved["average"] == "none" else AVERAGED
    return [
        {**record, "metric": record["metric"].removeprefix(prefix)}
        for record in records
        if record["step"] == saved["step"] and record["metric"].startswith(prefix)
    ]
