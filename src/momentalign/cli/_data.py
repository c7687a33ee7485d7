"""`momentalign data`: list, fetch, verify, path."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.progress import Progress as Bars
from rich.table import Table

from momentalign._format import pluralize

if TYPE_CHECKING:
    from momentalign.data._checksums import Progress

data = typer.Typer(no_args_is_help=True, help="Data sets: list, fetch, verify, path.")
Root = Annotated[
    Path | None,
    typer.Option(help="Data folder. If not given MOMENTALIGN_DATA names it, else it is ~/.cache/momentalign."),
]
Name = Annotated[str, typer.Argument(help="Name of a data set; 'momentalign data list' shows them.")]


@data.command("list")
def list_(root: Root = None) -> None:
    """All data sets: which are here, how large the others are, and how their files are checked."""
    from momentalign.data import data_folder, dataset_names, is_complete
    from momentalign.data._lock import recorded
    from momentalign.data._sources import EMBEDDED, find_source

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for column in ("name", "here", "download", "checksums", "terms"):
        table.add_column(column, overflow="fold")
    known = recorded(root)
    for name in dataset_names():
        if name in EMBEDDED:
            table.add_row(name, "yes", "none", "none needed", "comes with scikit-learn")
            continue
        key, source = find_source(name)
        published = [file.checksum is not None for file in source.files]
        locked = all(f"{key}/{Path(file.name).name}" in known for file in source.files if file.checksum is None)
        first_use = "recorded at first download" if locked else "trust on first use"
        checks = "published" if all(published) else first_use if not any(published) else f"published, {first_use}"
        here = "yes" if is_complete(name, root) else "no"
        table.add_row(name, here, f"{_size(source.gigabytes)}", checks, source.terms)
    console.print(table)
    console.print(f"Data folder: {data_folder(root)}", soft_wrap=True)
    console.print("A folder domain/class/image or a table with columns y and domain is a data set too: give its path.")


@data.command()
def fetch(
    name: Name,
    archives: Annotated[
        list[Path] | None,
        typer.Option(
            "--from", help="A file that you have already, instead of downloading. May be given several times."
        ),
    ] = None,
    root: Root = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the downloaded archives after unpacking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be downloaded, and stop.")] = False,
) -> None:
    """Download a data set, check it and unpack it. Interrupted, the same command goes on where it stopped."""
    from momentalign.data import dataset_path, is_complete
    from momentalign.data import fetch as fetch_dataset
    from momentalign.data._sources import EMBEDDED, find_source

    console = Console(highlight=False, markup=False, soft_wrap=True)
    if name in EMBEDDED:
        console.print(f"{name} needs no download. Next: momentalign train {name}")
        return
    key, source = find_source(name)
    folder = dataset_path(name, root)
    if is_complete(name, root):
        console.print(f"{name} is here already: {folder}. Next: momentalign data verify {name}{_where(root)}")
        return
    if archives:
        console.print(f"{name}: {', '.join(str(path) for path in archives)} into {folder}.")
    else:
        console.print(
            f"{name}: {pluralize(len(source.files), 'file')}, about {_size(source.gigabytes)}, into {folder}."
        )
        console.print(f"Terms: {source.terms}. Page: {source.page}")
        for file in source.files:
            how = "its checksum is known" if file.checksum else "its checksum is recorded at the first download"
            console.print(f"  {Path(file.name).name}: {pluralize(len(file.urls), 'address')}, {how}")
    if dry_run:
        return
    try:
        with _bars(console) as progress:
            fetch_dataset(key, root, progress, archives=archives or (), keep=keep)
    except KeyboardInterrupt:
        console.print("Interrupted. The same command goes on where it stopped.")
        raise typer.Exit(130) from None
    console.print(f"{name} lies in {folder}. Next: momentalign train {name}{_where(root)}")


@data.command()
def verify(name: Name, root: Root = None) -> None:
    """Compare a data set's files with their checksums and its numbers of rows with the published ones."""
    from momentalign.data import dataset_path
    from momentalign.data import verify as verify_dataset
    from momentalign.data._sources import EMBEDDED, find_source
    from momentalign.data._verify import known_files, manifest_path

    console = Console(highlight=False, markup=False, soft_wrap=True)
    if name in EMBEDDED:
        console.print(f"{name} has no files to verify.")
        return
    with _bars(console) as progress:
        problems = verify_dataset(name, root, progress)
    if problems:
        shown = problems[:20] + ([f"… and {len(problems) - 20} more."] if len(problems) > 20 else [])
        raise ValueError("\n".join([f"{name} is not as it should be.", *shown]))
    folder, source = dataset_path(name, root), find_source(name)[1]
    has_checksums = manifest_path(name, root).exists() or len(list(known_files(folder, source))) == len(source.files)
    by_hand = "It was put there by hand and has no checksums; its shape is as it"
    how = "Checksums and shape are as they" if has_checksums else by_hand
    console.print(f"{how} should be: {folder}")


@data.command()
def path(name: Name, root: Root = None) -> None:
    """Print the folder where a data set lies, or would."""
    from momentalign.data import dataset_path

    print(dataset_path(name, root))


def _size(gigabytes: float) -> str:
    return f"{gigabytes:.1f} GB" if gigabytes >= 1 else f"{gigabytes * 1000:.0f} MB"


@contextmanager
def _bars(console: Console) -> "Iterator[Progress]":
    """A bar for whatever is being done, with its speed and the time left."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bars(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                for task in tasks.values():
                    bars.update(task, visible=False)
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield show


def _where(root: Path | None) -> str:
    """What a suggested command needs to find the same folder."""
    return "" if root is None else f" --root {shlex.quote(str(root))}"
