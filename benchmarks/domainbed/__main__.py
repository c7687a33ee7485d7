"""Command line of the study: `python -m benchmarks.domainbed NAME --help`."""

import argparse
import os
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import benchmarks.domainbed
from benchmarks.domainbed.plans import STUDIES
from benchmarks.domainbed.study import runs_of
from benchmarks.records import load_lines
from momentalign.runs import Claims, RunConfig, RunState, read_run
from momentalign.training import run


def is_done(config: RunConfig, folder: Path, stored: set[str]) -> bool:
    """Whether a run's records are stored, or its folder has a finished run."""
    if config.hash() in stored:
        return True
    return (folder / "run.json").exists() and read_run(folder)["status"] == RunState.FINISHED


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is left of a study, until the time is over, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.domainbed", description=benchmarks.domainbed.__doc__)
    parser.add_argument("study", choices=list(STUDIES))
    parser.add_argument("-o", "--out", type=Path, default=Path("runs"), help="parent of the runs' folders")
    parser.add_argument("--data", default=os.environ.get("MOMENTALIGN_DATA"), help="default: $MOMENTALIGN_DATA")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no run after this time")
    parser.add_argument("--only", default="", help="algorithms, separated by commas (default: all)")
    parser.add_argument("--list", action="store_true", help="count what is left, and stop")
    given = parser.parse_args(arguments)
    if given.data is None:
        parser.error("no data folder: pass --data or set MOMENTALIGN_DATA.")
    study, root, until = STUDIES[given.study], Path(given.data), time.time() + given.seconds
    stored = {line["run"]["hash"] for line in load_lines(study.records)}
    wanted = given.only.split(",") if given.only else None
    try:
        planned = [config for config in runs_of(study, root) if wanted is None or config.algorithm in wanted]
    except FileNotFoundError as error:
        parser.error(str(error))
    left = [config for config in planned if not is_done(config, given.out / config.hash(), stored)]
    print(f"{len(left)} of {len(planned)} runs are left.", flush=True)
    if given.list:
        return 0
    claims = Claims(given.out)
    for number, config in enumerate(left, 1):
        if time.time() > until:
            break
        folder = given.out / config.hash()
        if not claims.acquire(config.hash()) or is_done(config, folder, stored):
            continue  # another process has it, or had it
        begin = time.time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                run(config, folder, root=root, save=False, train_accuracy=False)
        except Exception as error:  # one run of many: the others go on
            print(f"{config.algorithm} failed: {error}", file=sys.stderr, flush=True)
            continue
        what = f"{config.algorithm} {config.test_domains[0]}, trial {config.trial}, set {config.hparams_seed}"
        print(f"{number}/{len(left)} {what}: {time.time() - begin:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
