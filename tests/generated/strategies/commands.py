"""Command lines: every command with options and values of all kinds, most of which fail early."""

import inspect
import typing
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st
from typer.models import ArgumentInfo

from momentalign import cli
from tests.generated.strategies.tables import odd_texts

FILES = ("good.csv", "bad.csv", "few.csv", "odd.npz", "cut.tar.gz", "empty", "pictures", "runs", "runs/one", "gone", "")
"""What the working folder holds, and two that it does not."""

_WORDS = ("erm", "cma", "colored-digits", "pacs", "training-domain", "oracle", "mlp", "mnist-cnn", "hf:someone/model")
_VALUES = ("y", "domain", "site", "x", "text", "csv", "auto", "cpu", "probe", "local", "lr=1", "lr", "a,b", "s", "0,1")
_NUMBERS = ("0", "1", "-1", "2", "0.5", "1e400", "nan", "inf", "9" * 30, "\u0661")
_LONG = ("bench", "sweep", "reproduce", "train", "fetch")
"""Commands that always get `--dry-run`: their work is long, or needs the network."""
_NEVER = ("--jobs", "--workers", "--devices", "--address", "--engine")
"""Options that start processes."""

COMMANDS: dict[tuple[str, ...], Callable[..., None]] = {
    **{(str(one.name),): one.callback for one in cli.app.registered_commands if one.callback is not None},
    **{("data", str(one.name)): one.callback for one in cli.data.registered_commands if one.callback is not None},
}


class _Parameter(NamedTuple):
    option: str  # "" for an argument
    flag: bool
    kind: type
    name: str


def _parameters(command: Callable[..., None]) -> list[_Parameter]:
    found = []
    for name, parameter in inspect.signature(command).parameters.items():
        base, info = typing.get_args(parameter.annotation)[:2]
        kinds = [kind for kind in (typing.get_args(base) or (base,)) if kind is not type(None)]
        kind = (typing.get_args(kinds[0]) or (kinds[0],))[0]
        named = [word.partition("/")[0] for word in info.param_decls or () if word.startswith("--")]
        option = "" if isinstance(info, ArgumentInfo) else named[0] if named else f"--{name.replace('_', '-')}"
        found.append(_Parameter(option, kind is bool, kind, name))
    return found


_values = st.one_of(st.sampled_from([*FILES, *_WORDS, *_VALUES, *_NUMBERS]), odd_texts)


@st.composite
def command_lines(draw: st.DrawFn, names: tuple[str, ...]) -> list[str]:
    """Words of a command line after the program's name."""
    parameters = _parameters(COMMANDS[names])
    options = [parameter for parameter in parameters if parameter.option and parameter.option not in _NEVER]
    words = [*names]
    words += [draw(_value(draw, one)) for one in parameters if not one.option and draw(st.integers(0, 9))]
    for one in draw(st.lists(st.sampled_from(options), max_size=4)) if options else []:
        words.append(one.option if one.flag else f"{one.option}={draw(_value(draw, one))}")
    if not draw(st.integers(0, 19)):
        words.append(draw(_values))
    if names[-1] in _LONG and "--dry-run" not in words:
        words.append("--dry-run")
    return words


def _value(draw: st.DrawFn, parameter: _Parameter) -> st.SearchStrategy[str]:
    """Mostly values that a parameter may take, by its type and name, else any."""
    if not draw(st.integers(0, 4)):
        return _values
    if parameter.kind in (int, float):
        return st.sampled_from(_NUMBERS)
    if parameter.kind is Path or parameter.name in ("dataset", "encoder", "datasets"):
        return st.sampled_from(FILES)
    return st.sampled_from([*_WORDS, *_VALUES])
