"""Command line of the study: `python -m benchmarks.selection RUNS ... --help`."""

import argparse
import sys
from pathlib import Path

import benchmarks.selection
from benchmarks.records import json_lines, sweep_lines
from benchmarks.selection.curves import sweep_curves, tuning_curves
from benchmarks.selection.tables import tables


def main() -> int:
    """Print the tables and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.selection", description=benchmarks.selection.__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of sweeps, or files of benchmarks.fine_tuning")
    parser.add_argument("--per-domain", action="store_true", help="also print each test domain")
    arguments = parser.parse_args()
    curves = [
        run
        for path in arguments.runs
        for run in (sweep_curves(sweep_lines(path)) if path.is_dir() else tuning_curves(json_lines(path)))
    ]
    if not curves:
        print("error: there should be finished runs with one test domain, but there are none.", file=sys.stderr)
        return 2
    print("\n".join(tables(curves, arguments.per_domain)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
