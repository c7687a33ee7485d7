"""`momentalign data`: list, fetch, verify, path, groups."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from momentalign._datasets import SPLIT_NAMES
from momentalign._format import pluralize
from momentalign.cli._command import Command
from momentalign.cli._options import RootOption, option_groups, split_names
from momentalign.cli._output import (
    RESUME_NOTE,
    description_column,
    exit_on_interrupt,
    make_console,
    names_table,
    print_warnings,
)
from momentalign.cli._table_options import TableOptions

if TYPE_CHECKING:
    from momentalign.data import ByteProgress, Source

data = typer.Typer(no_args_is_help=True, help="Data sets: list, fetch, verify, path, groups.")
_Name = Annotated[str, typer.Argument(help="Name of a data set; 'momentalign data list' shows them.")]


@data.command("list", cls=Command)
def list_command(root: RootOption = None) -> None:
    """List all data sets: whether they are on disk, their download size and how their files are checked."""
    from momentalign.data import EMBEDDED, data_folder, dataset_names, find_source, is_complete

    console = make_console()
    table = names_table("name", "on disk", "download", "checksums", "terms")
    for name in dataset_names():
        if name in EMBEDDED:
            table.add_row(name, "yes", "none", "none needed", "part of scikit-learn")
            continue
        source = find_source(name)[1]
        on_disk = "yes" if is_complete(name, root) else "no"
        table.add_row(name, on_disk, _size(source.gigabytes), _describe_checks(source), source.terms)
    console.print(table)
    console.print(f"Data folder: {data_folder(root)}")
    console.print("A folder domain/class/image or a table with columns y and domain is a data set too: give its path.")


@data.command("fetch", cls=Command)
def fetch_command(
    name: _Name,
    archives: Annotated[
        list[Path] | None,
        typer.Option("--from", help="A local file to use instead of a download. May be given several times."),
    ] = None,
    root: RootOption = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the downloaded archives after unpacking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be downloaded and stop.")] = False,
) -> None:
    """Download a data set, check it and unpack it. The same command resumes an interrupted download."""
    from momentalign.data import EMBEDDED, dataset_path, fetch, find_source, is_complete

    console = make_console()
    if name in EMBEDDED:
        console.print(f"{name} needs no download. Next: momentalign train {name}")
        return
    key, source = find_source(name)
    folder = dataset_path(name, root)
    option = "" if root is None else f" --root {shlex.quote(str(root))}"
    if is_complete(name, root):
        console.print(f"{name} already exists in {folder}. Next: momentalign data verify {name}{option}")
        return
    if archives:
        console.print(f"{name}: {', '.join(str(path) for path in archives)} into {folder}.")
    else:
        files = pluralize(len(source.files), "file")
        console.print(f"{name}: {files}, about {_size(source.gigabytes)}, into {folder}.")
        console.print(f"Terms: {source.terms}. Page: {source.page}")
        for file in source.files:
            check = "checksum known" if file.checksum else "no checksum published"
            console.print(f"  {file.base_name}: {pluralize(len(file.urls), 'address')}, {check}")
    if dry_run:
        return
    with exit_on_interrupt(console, RESUME_NOTE), _progress_bars(console) as progress:
        fetch(key, root, progress, archives=archives or (), keep=keep)
    console.print(f"Saved {name} to {folder}. Next: momentalign train {name}{option}")


@data.command("verify", cls=Command)
def verify_command(name: _Name, root: RootOption = None) -> None:
    """Compare a data set's files with their checksums and its numbers of rows with the published ones."""
    from momentalign.data import EMBEDDED, checksum_list, dataset_path, verify

    console = make_console()
    if name in EMBEDDED:
        console.print(f"{name} has no files to verify.")
        return
    with _progress_bars(console) as progress:
        problems = verify(name, root, progress)
    if problems:
        shown = problems[:20] + ([f"… and {len(problems) - 20} more."] if len(problems) > 20 else [])
        raise ValueError("\n".join([f"{name} does not match.", *shown]))
    folder = dataset_path(name, root)
    if checksum_list(folder).exists():
        console.print(f"Checksums and structure match: {folder}")
    else:
        console.print(f"Structure and published checksums match; not fetched, so without a list of files: {folder}")


@data.command("path", cls=Command)
def path_command(name: _Name, root: RootOption = None) -> None:
    """Print the folder of a data set, whether or not it exists."""
    from momentalign.data import dataset_path

    print(dataset_path(name, root))


@data.command("groups", cls=Command)
@option_groups
def groups_command(
    dataset: Annotated[str, typer.Argument(help="A data set of image files, a folder domain/class/image, or a table.")],
    classes: Annotated[str, typer.Option(help="Two or more classes, separated by commas.")],
    domains: Annotated[str, typer.Option(help="As many domains, correlated with the classes in the same order.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="New folder for the group set.")],
    table: TableOptions,
    share: Annotated[float, typer.Option(help="Share of a class's training rows that are of its domain.")] = 0.95,
    holdout: Annotated[float, typer.Option(help="Share of every group's rows in val, and again in test.")] = 0.2,
    trial: Annotated[int, typer.Option(help="Seed of the rows.")] = 0,
    root: RootOption = None,
) -> None:
    """Make a data set for worst-group methods: in the training rows each class occurs mostly in one domain."""
    from momentalign.data import make_group_set, table_spec

    console = make_console()
    with print_warnings(console):
        made = make_group_set(
            table_spec(dataset, **table),
            out,
            classes=split_names(classes),
            domains=split_names(domains),
            share=share,
            holdout=holdout,
            trial=trial,
            root=root,
        )
    sizes = names_table("group")
    for split in SPLIT_NAMES:
        sizes.add_column(split, justify="right")
    for group, counts in zip(made.group_names, made.counts.tolist(), strict=True):
        sizes.add_row(group, *map(str, counts))
    console.print(sizes)
    path = shlex.quote(str(made.path))
    if made.path.is_dir():
        following = f"momentalign embed {path} --encoder FOLDER -o features.parquet"
    else:
        following = f"momentalign probe {path}"
    console.print(f"Saved the group set to {made.path}. Next: {following}")


def _describe_checks(source: "Source") -> str:
    known = sum(file.checksum is not None for file in source.files)
    return "published" if known == len(source.files) else f"{known} of {len(source.files)} published"


def _size(gigabytes: float) -> str:
    return f"{gigabytes:.1f} GB" if gigabytes >= 1 else f"{gigabytes * 1000:.0f} MB"


@contextmanager
def _progress_bars(console: Console) -> "Iterator[ByteProgress]":
    """A bar for the current action, with its speed and the time left."""
    columns = (description_column(), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        tasks: dict[str, TaskID] = {}

        def update(action: str, done: int, total: int | None) -> None:
            if action not in tasks:
                for task in tasks.values():
                    bars.update(task, visible=False)
                tasks[action] = bars.add_task(action, total=total)
            bars.update(tasks[action], completed=done, total=total)

        yield update
