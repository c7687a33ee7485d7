"""`records.jsonl`: one number per line, in the order of recording."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from momentalign._json import parse_json

RECORDS = "records.jsonl"
MOST_STEPS = 2**53
"""Steps are below this number, so that charts and sums hold them exactly."""
ParseLine = Callable[[bytes], dict[str, Any] | None]
AVERAGED = "averaged_"
"""Prefix of the metrics of averaged weights, which a run records beside those of its raw weights."""


class Record(TypedDict, total=False):
    """One number of a run; `group` only where it is one group's."""

    step: int
    domain: str | None
    split: str | None
    metric: str
    value: float | None
    group: str


def read_records(folder: Path) -> list[Record]:
    """Read a run's records, without a last line that a crash cut off.

    Raises ValueError with the path and the number of a damaged line.
    """
    path = folder / RECORDS
    content, _ = complete_lines(path.read_bytes())
    records: list[Record] = []
    for number, line in enumerate(content.splitlines(), start=1):
        if parse_record(line) is None:
            raise ValueError(
                f"{path}, line {number} should be a record, but cannot be read. Remove {folder} and run the same "
                "command again."
            )
        records.append(parse_json(line, nonfinite=True))
    return records


def parse_record(line: bytes) -> dict[str, Any] | None:
    """Parse a line into all keys of a record, or None where it is not one."""
    try:
        fields = parse_json(line, nonfinite=True)
        step, value = fields["step"], fields.get("value")
        texts = {key: fields.get(key) for key in ("domain", "split", "metric", "group")}
        known = isinstance(texts["metric"], str) and all(
            text is None or isinstance(text, str) for text in texts.values()
        )
        if not known or isinstance(step, bool) or isinstance(value, bool) or int(step) != step:
            return None
        row = {"step": int(step), **texts, "value": None if value is None else value + 0.0}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
    return row if 0 <= row["step"] < MOST_STEPS else None


def complete_lines(content: bytes, parse: ParseLine = parse_record) -> tuple[bytes, bool]:
    """Remove a last line that a crash cut off; returns the rest, and whether there was one."""
    end = content.rfind(b"\n") + 1
    if end == len(content):
        return content, False
    if parse(content[end:]) is not None:  # lacks nothing but its line break
        return content + b"\n", False
    return content[:end], True


def torn_note(file: str) -> str:
    """Message on a last line that a crash cut off."""
    return f"the last line of its {file} is incomplete and ignored."


def parse_lines(content: bytes, file: str, parse: ParseLine = parse_record) -> tuple[list[dict[str, Any]], list[str]]:
    """Parse the lines that are not empty; returns the rows, and a message if some lines cannot be read."""
    parsed = [(number, parse(line)) for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
    rows = [row for _, row in parsed if row is not None]
    bad = [number for number, row in parsed if row is None]
    if not bad:
        return rows, []
    which = f"line {bad[0]}" if len(bad) == 1 else f"{len(bad)} lines (the first is line {bad[0]})"
    verb = "is" if len(bad) == 1 else "are"
    return rows, [f"{which} of its {file} cannot be read and {verb} ignored."]


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
    chosen = [record for record in records if record["step"] == saved["step"]]
    return [
        {**record, "metric": record["metric"].removeprefix(prefix)}
        for record in chosen
        if record["metric"].startswith(prefix)
    ]
