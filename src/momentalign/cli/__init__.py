"""The command line, thin: parse, call, print. One module a command; what a command needs is imported when it runs."""

import sys
from errno import EDQUOT, ENOSPC

try:
    import typer
    from rich.console import Console
except ModuleNotFoundError as error:
    print(f"The command line needs {error.name}. Install it with: pip install 'momentalign[cli]'", file=sys.stderr)
    sys.exit(2)

from momentalign.cli._bench import bench
from momentalign.cli._data import data
from momentalign.cli._diagnose import diagnose
from momentalign.cli._embed import embed
from momentalign.cli._evaluate import evaluate
from momentalign.cli._probe import probe
from momentalign.cli._report import report
from momentalign.cli._reproduce import reproduce
from momentalign.cli._sweep import sweep
from momentalign.cli._table import table
from momentalign.cli._train import train

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Exact gradient, Hessian and higher-order alignment for domain generalization.",
)
for command in (bench, diagnose, embed, evaluate, probe, report, reproduce, sweep, table, train):
    app.command()(command)
app.add_typer(data, name="data")


def main() -> None:
    """Run a command; an error that a user can mend is one line and exit code 2, not a traceback."""
    try:
        app(standalone_mode=True)
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        Console(stderr=True, highlight=False).print(f"Error: {_in_words(error)}", markup=False, soft_wrap=True)
        sys.exit(2)


def _in_words(error: Exception) -> str:
    """An error in one line; what the system says of a file without its numbers, and what to do where that is plain."""
    from momentalign.report._escape import printable

    if not isinstance(error, OSError) or not error.strerror:
        return printable(" ".join(str(error).split("\n")))
    what = f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return printable(what) + (" Make room and run the same command again." if error.errno in (ENOSPC, EDQUOT) else "")
