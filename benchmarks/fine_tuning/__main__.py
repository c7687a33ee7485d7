"""Command line of the study: `python -m benchmarks.fine_tuning --help`."""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.fine_tuning.runs import decode_images, run_jobs
from benchmarks.fine_tuning.settings import STUDIES, plan
from benchmarks.fine_tuning.tables import tables


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the missing runs of a study, print its tables, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fine_tuning", description="Run the missing runs of a study and print its tables."
    )
    parser.add_argument("study", choices=[*STUDIES, "show"])
    parser.add_argument("files", nargs="*", type=Path, help="for show: finished runs")
    parser.add_argument("-o", "--out", type=Path, default=Path("fine_tuning.jsonl"), help="file of finished runs")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once (default: 1)")
    parser.add_argument("--steps", type=int, help="length of a run (default: the study's)")
    parser.add_argument("--seeds", default="0,1,2", help="seeds (default: 0,1,2)")
    parser.add_argument("--only", default="", help="settings whose label starts with one of these, separated by ';'")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no run after this time")
    parser.add_argument(
        "--data", default=os.environ.get("MOMENTALIGN_DATA"), help="folder (default: $MOMENTALIGN_DATA)"
    )
    given = parser.parse_args(arguments)
    if given.study == "show":
        lines = [line for file in given.files for line in _read(file)]
        print("\n".join([*tables(lines), *tables(lines, "averaged"), *tables(lines, "selected")]))
        return 0
    if given.data is None:
        parser.error("no data folder: pass --data or set MOMENTALIGN_DATA.")
    root, study, until = Path(given.data), STUDIES[given.study], time.time() + given.seconds
    done = {tuple(line[k] for k in ("dataset", "domain", "seed", "setting", "steps")) for line in _read(given.out)}
    wanted = tuple(given.only.split(";"))
    jobs = plan(given.study, given.steps, [int(seed) for seed in given.seeds.split(",")])
    jobs = [job for job in jobs if job.key not in done and job.setting.label.startswith(wanted)]
    with tempfile.TemporaryDirectory() as folder, given.out.open("a", encoding="utf-8") as out:
        images = Path(folder) if given.study == "pacs" else None
        encoder = None if study.encoder is None else f"{root / study.encoder}?size=112"
        if images is not None and jobs:
            decode_images(root / "pacs/PACS_112px_q85.tar", images, 112)
        options: dict[str, Any] = {"encoder": encoder, "images": images, "until": until}
        for number, line in enumerate(run_jobs(jobs, root, processes=given.jobs, **options), 1):
            out.write(json.dumps(line) + "\n")
            out.flush()
            what = f"{line['dataset']} {line['domain']} {line['seed']} {line['setting']}"
            left = until - time.time()
            print(f"{number}/{len(jobs)} {what}: {line['last']:.3f} {line['seconds']} s, {left:.0f} s left", flush=True)
    print("\n".join(tables(_read(given.out))))
    return 0


def _read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


if __name__ == "__main__":
    sys.exit(main())
