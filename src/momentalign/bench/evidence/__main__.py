"""Command line of the evidence: `python -m momentalign.bench.evidence --help`."""

import argparse
import os
import sys
from pathlib import Path

from momentalign.bench.evidence import SETS, plan, run_cells, tables


def main() -> int:
    """Run the cells that are missing and print the tables.

    Returns:
        Exit code.
    """
    parser = argparse.ArgumentParser(
        prog="python -m momentalign.bench.evidence",
        description="Leave-one-domain-out on real tables. Finished cells are kept: run it again to go on.",
    )
    parser.add_argument("--sets", default=",".join(SETS), help="sets, separated by commas (default: all)")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (default: 5)")
    parser.add_argument("--jobs", type=int, default=1, help="processes of one thread each (default: 1)")
    parser.add_argument(
        "--data", default=os.environ.get("MOMENTALIGN_DATA"), help="folder (default: $MOMENTALIGN_DATA)"
    )
    parser.add_argument("-o", "--out", type=Path, default=Path("evidence.json"), help="file of finished cells")
    arguments = parser.parse_args()
    sets = arguments.sets.split(",")
    unknown = [name for name in sets if name not in SETS]
    if unknown:
        parser.error(f"--sets should name some of {', '.join(SETS)}, but has {', '.join(unknown)}.")
    if arguments.data is None:
        parser.error("give the folder with the data by --data or MOMENTALIGN_DATA.")
    root = Path(arguments.data)
    try:
        cells = plan(sets, range(arguments.seeds), root)
        results = run_cells(
            cells, root, arguments.out, jobs=arguments.jobs, progress=lambda line: print(line, file=sys.stderr)
        )
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join(tables(results)))
    print(f"Cells: {arguments.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
