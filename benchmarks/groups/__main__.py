"""Command line of the study: `python -m benchmarks.groups --help`."""

import argparse
import os
import sys
from pathlib import Path

from benchmarks.groups.cells import plan_cells, run_cells
from benchmarks.groups.methods import METHODS
from benchmarks.groups.sets import SETS


def main() -> int:
    """Run the missing cells and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.groups",
        description="Remedies for worst groups. Saves finished cells; run it again to resume.",
    )
    parser.add_argument("--sets", default=",".join(SETS), help="sets, separated by commas (default: all)")
    parser.add_argument("--methods", default=",".join(METHODS), help="methods, separated by commas (default: all)")
    parser.add_argument("--seeds", type=int, default=5, help="number of splits (default: 5)")
    parser.add_argument(
        "--data", default=os.environ.get("MOMENTALIGN_DATA"), help="data folder (default: $MOMENTALIGN_DATA)"
    )
    parser.add_argument("-o", "--out", type=Path, default=Path("groups.jsonl"), help="file of finished cells")
    arguments = parser.parse_args()
    chosen = {}
    for name, known in {"sets": list(SETS), "methods": list(METHODS)}.items():
        chosen[name] = getattr(arguments, name).split(",")
        if unknown := [given for given in chosen[name] if given not in known]:
            parser.error(f"--{name} should name some of {', '.join(known)}, but has {', '.join(unknown)}.")
    if arguments.data is None:
        parser.error("no data folder: pass --data or set MOMENTALIGN_DATA.")
    cells = plan_cells(chosen["sets"], range(arguments.seeds), chosen["methods"])
    try:
        run_cells(cells, Path(arguments.data), arguments.out, lambda line: print(line, file=sys.stderr))
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"Saved the cells to {arguments.out}. Next: python -m benchmarks.pages add groups {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
