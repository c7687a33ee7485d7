"""Runs on disk, without torch: configuration, run.json, records, state, locks, plan file, data stamp.

A run is a folder: `run.json` (what was run and how it ended), `records.jsonl` (its numbers) and one file of
weights, `checkpoint.safetensors` while it runs and `model.safetensors` when it is done.
:class:`RunFolder` writes one; :func:`read_run` and :func:`read_records` read one; :func:`read_runs` reads many into a
:class:`Sweep` of two data frames.
"""

from momentalign.runs._config import RunConfig, cell_of
from momentalign.runs._folder import RunFolder
from momentalign.runs._locks import BusyError, Claims, is_busy
from momentalign.runs._planned import remove_planned, write_planned
from momentalign.runs._read import read_runs
from momentalign.runs._records import AVERAGED, Record, read_records, saved_records, weights_note
from momentalign.runs._run_json import (
    DivergedError,
    RunState,
    UnreadableRunError,
    data_stamp,
    find_clashes,
    read_run,
    record_failure,
    run_state,
    write_json,
)
from momentalign.runs._sweep import Sweep

__all__ = [
    "AVERAGED",
    "BusyError",
    "Claims",
    "DivergedError",
    "Record",
    "RunConfig",
    "RunFolder",
    "RunState",
    "Sweep",
    "UnreadableRunError",
    "cell_of",
    "data_stamp",
    "find_clashes",
    "is_busy",
    "read_records",
    "read_run",
    "read_runs",
    "record_failure",
    "remove_planned",
    "run_state",
    "saved_records",
    "weights_note",
    "write_json",
    "write_planned",
]
