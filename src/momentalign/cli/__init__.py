"""The command line, thin: parse, call, print. One module a command; what a command needs is imported when it runs."""

import sys
import sysconfig
import traceback
from errno import EDQUOT, ENOSPC
from pathlib import Path

try:
    import typer
    from rich.console import Console
except ModuleNotFoundError as error:
    print(f"The command line needs {error.name}. Install it with: pip install 'momentalign[cli]'", file=sys.stderr)
    sys.exit(2)

from momentalign._machine import is_ours
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
    except KeyboardInterrupt:  # before a command could say what to do
        Console(stderr=True).print("Interrupted.")
        sys.exit(130)
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        Console(stderr=True, highlight=False).print(f"Error: {_in_words(error)}", markup=False, soft_wrap=True)
        sys.exit(2)


def _place(error: BaseException) -> str:
    """Where in a user's own code an error comes from, a penalty's for instance; nothing where all of it is ours."""
    files = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    begin = next((k for k, (file, _) in enumerate(files) if is_ours(file)), len(files))
    python = (sysconfig.get_path("stdlib"), "<")
    own = [
        f"({file}, line {line})"
        for file, line in files[begin:]
        if not is_ours(file)
        and not file.startswith(python)
        and not {"site-packages", "dist-packages"} & set(Path(file).parts)
    ]
    return own[-1] if own else ""


def _in_words(error: Exception) -> str:
    """An error in one line; what the system says of a file without its numbers, and what to do where that is plain."""
    from momentalign.report._escape import printable

    if not isinstance(error, OSError) or not error.strerror:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # Where a line ends without a stop, the next would run into it.
        text = " ".join(line if line.endswith((".", ",", ":", ";", "?", "!")) else f"{line}." for line in lines[:-1])
        return printable(" ".join(filter(None, [text, *lines[-1:], _place(error)])))
    what = f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return printable(what) + (" Make room and run the same command again." if error.errno in (ENOSPC, EDQUOT) else "")
