"""Command line: parse, call, print. One module per command; heavy imports happen when a command runs."""

import io
import sys
from typing import Annotated, Any

try:
    import typer

    from momentalign.cli._output import make_console
except ModuleNotFoundError as error:
    print(f"The command line needs {error.name}. Install it with: pip install 'momentalign[cli]'", file=sys.stderr)
    sys.exit(2)

import momentalign
from momentalign._errors import describe_error, user_location
from momentalign._files import is_disk_full
from momentalign._signals import Interrupts, exit_code, print_interrupted
from momentalign.cli._bench import bench
from momentalign.cli._command import Command
from momentalign.cli._data import data
from momentalign.cli._diagnose import diagnose
from momentalign.cli._embed import embed_command
from momentalign.cli._evaluate import evaluate_command
from momentalign.cli._export import export_command
from momentalign.cli._probe import probe
from momentalign.cli._push import push
from momentalign.cli._report import report
from momentalign.cli._reproduce import reproduce
from momentalign.cli._soup import soup
from momentalign.cli._sweep import sweep
from momentalign.cli._table import table
from momentalign.cli._train import train_command

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Exact gradient, Hessian and higher-order alignment for domain generalization.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"momentalign {momentalign.__version__}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    pass


_COMMANDS = (
    bench, diagnose, embed_command, evaluate_command, export_command, probe, push, report, reproduce, soup, sweep,
    table, train_command,
)  # fmt: skip
for command in _COMMANDS:
    app.command(command.__name__.removesuffix("_command"), cls=Command)(command)
app.add_typer(data, name="data")


def main() -> None:
    """Run a command; an error that a user can fix is one line and exit code 2, not a traceback."""
    Interrupts().install()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may lack characters of a name
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # before or after a command; typer calls it an abort
            print_interrupted()
            sys.exit(exit_code(error.__cause__))
        usage = getattr(error, "format_message", None)  # of all errors that typer raises for a command line
        fixable = isinstance(error, ValueError | TypeError | OSError | ModuleNotFoundError | MemoryError)
        if usage is None and not fixable and not user_location(error):  # a bug of this package: keep the traceback
            raise
        text = _usage(error) if usage else _one_line(error) if fixable else describe_error(error)
        if text:
            make_console(stderr=True).print(f"Error: {text}")
        sys.exit(2)
    sys.exit(code or 0)


def _usage(error: Any) -> str:
    """Message of an error in the command line, and where to look it up; "" where help has been printed instead."""
    message: str = error.format_message()
    if not message or error.ctx is None:
        return message
    end = "" if message.endswith(("?", ".")) else "."
    return f"{message}{end} Try '{error.ctx.command_path} --help'."


def _one_line(error: Exception) -> str:
    """The whole message of an error in one line; for an error of the system the file and the reason."""
    if not isinstance(error, OSError) or not error.strerror:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # Lines that end without punctuation get a full stop before they are joined.
        text = " ".join(line if line.endswith((".", ",", ":", ";", "?", "!")) else f"{line}." for line in lines[:-1])
        return " ".join(filter(None, [text, *lines[-1:], user_location(error)])) or type(error).__name__
    what = f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return what + (" Free some space and run the same command again." if is_disk_full(error) else "")
