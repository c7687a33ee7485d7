"""`momentalign export`."""

from pathlib import Path
from typing import Annotated

import typer

from momentalign._format import pluralize
from momentalign.cli._output import make_console


def export_command(
    run: Annotated[Path, typer.Argument(help="Folder of a run with its weights.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .pt2 or .onnx.", show_default=False)],
) -> None:
    """Write a trained network to one file that runs without this package: torch.export's .pt2, or ONNX."""
    from momentalign._outputs import check_output
    from momentalign.training import EXPORT_KINDS, export_model

    check_output(out, EXPORT_KINDS)
    console = make_console()
    with console.status("Exporting, and comparing the file with the network"):
        model = export_model(run, out)
    size = out.stat().st_size / 2**20
    console.print(
        f"Saved {out} ({size:.1f} MiB): raw rows to logits of {pluralize(len(model.classes), 'class')}, any "
        "number of rows. Its logits were compared with the network's."
    )
