"""Options of all commands that read tables: names of columns, separator, encoding."""

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from momentalign._table_spec import is_table, spec_path, table_spec

TABLE_HELP = "A .csv, .tsv (both also .gz), .parquet or .npz file."
TableOptions = Mapping[str, str]
"""The options that were given, by name."""
_TABLE = "Tables"
_OPTIONS = {
    "target": ("Column of the labels.", "y"),
    "domain": ("Column of the domains.", "domain"),
    "group": ("Column of the groups.", "group, if there is one"),
    "split": ("Column of the splits: train, val, test.", "split, if there is one"),
    "sep": ("Separator of a CSV file: one character, or tab.", "comma; tab for .tsv"),
    "encoding": ("Encoding of a CSV file.", "utf-8"),
}


def table_options(command: Callable[..., None], *, default: str | None = None) -> Callable[..., None]:
    """Replace the parameter `table` of a command, a :data:`TableOptions`, by an option for each of its keys.

    `default` is what help shows as the default of all of them, instead of that of a table.
    """
    signature = inspect.signature(command)
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                str | None, typer.Option(help=text, show_default=default or own, rich_help_panel=_TABLE)
            ],
        )
        for name, (text, own) in _OPTIONS.items()
    ]
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        is_table = parameter.name == "table"
        parameters += options if is_table else [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]

    @functools.wraps(command)
    def with_table(**values: Any) -> None:
        given = {name: values.pop(name) for name in _OPTIONS}
        command(**values, table={name: value for name, value in given.items() if value is not None})

    with_table.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_table.__annotations__ = {item.name: item.annotation for item in parameters}
    return with_table


def check_exists(path: Path) -> None:
    """Raise FileNotFoundError for a missing file or folder, before slow imports."""
    if not Path(spec_path(str(path))).expanduser().exists():
        raise FileNotFoundError(f"{path} does not exist.")


def check_table(path: str | Path, table: TableOptions) -> None:
    """Check that a table and its columns exist, before slow imports."""
    from momentalign.tables import check_columns

    check_columns(path, **table)


def check_dataset(name: str, table: TableOptions) -> None:
    """Check that a table with its columns, or a folder, exists, before slow imports."""
    path = Path(spec_path(table_spec(name, **table))).expanduser()
    if is_table(path) and not path.is_dir():
        check_table(name, table)
    elif len(path.parts) > 1:
        check_exists(path)


def words_of(table: TableOptions) -> list[str]:
    """The options as command-line arguments."""
    return [word for name, value in table.items() for word in (f"--{name}", value)]
