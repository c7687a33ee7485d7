"""The command line, thin: parse, call, print. One module a command; what a command needs is imported when it runs."""

import functools
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Annotated, Any

try:
    import typer
    from rich.console import Console
except ModuleNotFoundError as error:
    print(f"The command line needs {error.name}. Install it with: pip install 'momentalign[cli]'", file=sys.stderr)
    sys.exit(2)

import momentalign
from momentalign._errors import in_one_line, place_of
from momentalign._files import is_disk_full
from momentalign.cli._bench import bench
from momentalign.cli._data import data
from momentalign.cli._embed import embed
from momentalign.cli._evaluate import evaluate
from momentalign.cli._probe import diagnose, probe
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


def _say_version(asked: bool) -> None:
    if asked:
        print(f"momentalign {momentalign.__version__}")
        raise typer.Exit


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """A command that says so when it is interrupted, where it has no more to say of its own."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            _say_interrupted()
            raise typer.Exit(130) from None

    return run


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Say which version this is.")
    ] = False,
) -> None:
    pass


for command in (bench, diagnose, embed, evaluate, probe, report, reproduce, sweep, table, train):
    app.command()(_interruptible(command))
app.add_typer(data, name="data")


def main() -> None:
    """Run a command; an error that a user can mend is one line and exit code 2, not a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where interrupts are to be ignored
        signal.signal(signal.SIGINT, _interrupt)
    try:
        app(standalone_mode=True)
    except Exception as error:
        mendable = isinstance(error, ValueError | TypeError | OSError | ModuleNotFoundError)
        if not mendable and not place_of(error):  # a mistake of ours, whose traceback somebody will want to report
            raise
        text = _in_words(error) if mendable else in_one_line(error)
        Console(stderr=True, highlight=False).print(f"Error: {text}", markup=False, soft_wrap=True)
        sys.exit(2)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but end at once where a library is being imported: half of one makes another error."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _say_interrupted()
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


def _say_interrupted() -> None:
    print("Interrupted.", file=sys.stderr, flush=True)


def _in_words(error: Exception) -> str:
    """An error in one line; what the system says of a file without its numbers, and what to do where that is plain."""
    from momentalign._format import printable

    if not isinstance(error, OSError) or not error.strerror:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # Where a line ends without a stop, the next would run into it.
        text = " ".join(line if line.endswith((".", ",", ":", ";", "?", "!")) else f"{line}." for line in lines[:-1])
        return printable(" ".join(filter(None, [text, *lines[-1:], place_of(error)])))
    what = f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return printable(what) + (" Make room and run the same command again." if is_disk_full(error) else "")
