"""Command line of the study: `python -m benchmarks.probing --help`."""

import argparse
import os
import sys
from pathlib import Path

import benchmarks.probing
from benchmarks.probing.cells import METHODS, run_cells


def main() -> int:
    """Run the missing cells and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.probing", description=benchmarks.probing.__doc__)
    parser.add_argument("--methods", default=",".join(METHODS), help="methods, separated by commas (default: all)")
    parser.add_argument("--seeds", type=int, default=5, help="number of splits (default: 5)")
    parser.add_argument(
        "--data", default=os.environ.get("MOMENTALIGN_DATA"), help="data folder (default: $MOMENTALIGN_DATA)"
    )
    parser.add_argument("-o", "--out", type=Path, default=Path("probing.jsonl"), help="file of finished cells")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no cell after this time")
    given = parser.parse_args()
    if given.data is None:
        parser.error("no data folder: pass --data or set MOMENTALIGN_DATA.")
    methods = given.methods.split(",")
    if unknown := [name for name in methods if name not in METHODS]:
        parser.error(f"--methods should name some of {', '.join(METHODS)}, but has {', '.join(unknown)}.")
    try:
        run_cells(
            range(given.seeds),
            methods,
            Path(given.data),
            given.out,
            lambda line: print(line, file=sys.stderr),
            given.seconds,
        )
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"Saved the cells to {given.out}. Next: python -m benchmarks.pages add probing {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
