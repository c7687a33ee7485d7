"""Options of all commands that read tables: names of columns, separator, encoding."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from momentalign._table_spec import is_table, spec_path, table_spec

TABLE_HELP = "A .csv, .tsv (both also .gz), .parquet or .npz file."
_OPTIONS = {
    "target": ("Column of the labels.", "y"),
    "domain": ("Column of the domains.", "domain"),
    "group": ("Column of the groups.", "group, if there is one"),
    "split": ("Column of the splits: train, val, test.", "split, if there is one"),
    "sep": ("Separator of a CSV file: one character, or tab.", "comma; tab for .tsv"),
    "encoding": ("Encoding of a CSV file.", "utf-8"),
}


def _group(default: str | None = None) -> dict[str, Any]:
    return {
        name: Annotated[str | None, typer.Option(help=text, show_default=default or own, rich_help_panel="Tables")]
        for name, (text, own) in _OPTIONS.items()
    }


TableOptions = Annotated[Mapping[str, str], _group()]
TrainedTableOptions = Annotated[Mapping[str, str], _group("as in training")]


def check_exists(path: Path) -> None:
    """Raise FileNotFoundError for a missing file or folder, before slow imports."""
    if not Path(spec_path(str(path))).expanduser().exists():
        raise FileNotFoundError(f"{spec_path(str(path))} does not exist.")


def check_dataset(name: str, table: TableOptions) -> None:
    """Check that a table or folder exists, before slow imports."""
    path = Path(spec_path(table_spec(name, **table)))
    if is_table(path) or len(path.parts) > 1:
        check_exists(path)


def words_of(table: TableOptions) -> list[str]:
    """The options as command-line arguments."""
    return [word for name, value in table.items() for word in (f"--{name}", value)]
