"""Which weights a finished run has saved, and their records."""

from collections.abc import Mapping, Sequence
from typing import Any

from momentalign.runs._records import AVERAGED, Record


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
