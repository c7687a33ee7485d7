"""Command line of the study: `python -m benchmarks.estimators --help`."""

import argparse
import os
import sys
from pathlib import Path

from benchmarks.estimators.cells import SMALL_DRAWS, plan_cells, run_cells
from benchmarks.estimators.sets import SETS, parse_sets
from benchmarks.estimators.tables import markdown_tables


def main() -> int:
    """Run the missing cells, print the tables, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.estimators",
        description="Searches against scikit-learn on left-out domains. Saves finished cells; run it again to resume.",
    )
    parser.add_argument("--sets", type=parse_sets, default=list(SETS), help="sets, separated by commas (default: all)")
    parser.add_argument(
        "--draws",
        type=int,
        default=SMALL_DRAWS,
        help=f"draws of small training sets besides all rows (default: {SMALL_DRAWS})",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes of one thread each (default: 1)")
    parser.add_argument(
        "--data", default=os.environ.get("MOMENTALIGN_DATA"), help="data folder (default: $MOMENTALIGN_DATA)"
    )
    parser.add_argument("-o", "--out", type=Path, default=Path("estimators.json"), help="file of finished cells")
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("no data folder: pass --data or set MOMENTALIGN_DATA.")
    root = Path(arguments.data)
    try:
        cells = plan_cells(arguments.sets, range(arguments.draws + 1), root)
        results = run_cells(
            cells, root, arguments.out, jobs=arguments.jobs, progress=lambda line: print(line, file=sys.stderr)
        )
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n\n".join(f"### {name}\n\n{table}" for name, table in markdown_tables(results).items()))
    print(f"Saved the cells to {arguments.out}.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
