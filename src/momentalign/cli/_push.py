"""`momentalign push`."""

from pathlib import Path
from typing import Annotated

import typer

from momentalign._format import format_size, printable
from momentalign.cli._output import make_console


def push(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run or of a probe's model.", show_default=False)],
    name: Annotated[str, typer.Argument(help="Model on the hub: user/model.", show_default=False)],
    licence: Annotated[
        str | None, typer.Option(help="The hub's name of a licence, such as mit.", show_default="left open")
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the model card and the files, and stop.")] = False,
) -> None:
    """Upload a trained model with a model card to the Hugging Face hub."""
    from momentalign.hub import files_to_upload, model_card, push_to_hub

    console = make_console()
    if dry_run:
        contents = files_to_upload(folder)
        print(printable(model_card(folder, name, licence=licence), keep="\n"))
        for path, content in contents.items():
            size = len(content) if isinstance(content, bytes) else content.stat().st_size
            console.print(f"{path}: {format_size(size)}")
        console.print("Nothing was uploaded.")
        return
    with console.status("Uploading"):
        address = push_to_hub(folder, name, licence=licence, private=private or None)
    console.print(f"Uploaded: {address}")
    console.print(f"In Python: momentalign.hub.from_pretrained({name!r}) loads it.")
