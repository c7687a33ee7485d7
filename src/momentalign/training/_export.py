"""A trained network as one file that runs without this package: torch.export's .pt2, or ONNX."""

import io
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.export import ExportedProgram

from momentalign._extras import require
from momentalign._files import atomic_write
from momentalign.encoders import Preprocessing
from momentalign.training._predictor import Predictor, load_run

EXPORT_KINDS = (".pt2", ".onnx")
"""Endings of the files that :func:`export_model` writes."""

_TOLERANCE = 1e-3


def export_model(run: str | Path | Predictor, path: str | Path) -> Predictor:
    """Write a trained network, with its preprocessing of tensors, to one file.

    A batch may have any number of rows. The file maps raw rows, as :meth:`Predictor.forward` takes them, to logits; the
    classes' names are beside it: in a .pt2 file the extra file "classes.json", in ONNX the metadata "classes". The
    file is compared with the network, on another number of rows than it was traced with, before it is written.

    Args:
        run: Folder of a run, finished or with a checkpoint; or what :func:`momentalign.load` returned, on the host.
        path: File to write; its ending chooses the format: .pt2 for torch.export, .onnx for ONNX.

    Returns:
        The network that was written.

    Raises:
        ValueError: The ending is another, the folder is not a run, or the file's logits are not the network's.
    """
    path = Path(path)
    check_kind(path)
    model = run if isinstance(run, Predictor) else load_run(run)
    traced, other = map(model.preprocessing.example, (4, 7))
    with torch.no_grad(), _quiet():
        expected = model(other).numpy()  # first, or preprocessing would cache the tracer's tensors
        program = torch.export.export(model, (traced,), dynamic_shapes=(_free_sides(model.preprocessing),))
        content, found = (_to_pt2 if path.suffix == ".pt2" else _to_onnx)(program, model.classes, other)
    difference = float(np.abs(found - expected).max())
    if not difference <= _TOLERANCE * (1 + float(np.abs(expected).max())):
        raise ValueError(f"The exported network's logits differ from the network's by {difference:.2g}: not written.")
    atomic_write(path, content)
    return model


def check_kind(path: Path) -> None:
    """Raise ValueError for an unknown ending, ModuleNotFoundError where ONNX is asked for and not installed."""
    if path.suffix not in EXPORT_KINDS:
        raise ValueError(f"The file should end in {' or '.join(EXPORT_KINDS)}, but is {path.name!r}.")
    if path.suffix == ".onnx":
        for module in ("onnx", "onnxscript", "onnxruntime"):
            require(module, "ONNX files need", extra="onnx", alternative=", or write a .pt2 file")


def _free_sides(preprocessing: Preprocessing) -> dict[int, Any]:
    """Dynamic dimensions: the number of rows, and the sides that the encoder does not fix."""
    free = [k for k, side in enumerate(preprocessing.shape, 1) if side is None]
    return dict.fromkeys([0, *free], torch.export.Dim.DYNAMIC)


def _to_pt2(program: ExportedProgram, classes: Sequence[str], rows: Tensor) -> tuple[bytes, NDArray[Any]]:
    """Content of the file, and the logits that it gives."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer, extra_files={"classes.json": json.dumps(classes)})
    buffer.seek(0)
    return buffer.getvalue(), torch.export.load(buffer).module()(rows).numpy()


def _to_onnx(program: ExportedProgram, classes: Sequence[str], rows: Tensor) -> tuple[bytes, NDArray[Any]]:
    """Content of the file, and the logits that it gives."""
    onnxruntime = require("onnxruntime", "ONNX files need", extra="onnx")
    exported = torch.onnx.export(program, dynamo=True, verbose=False, input_names=["rows"], output_names=["logits"])
    assert exported is not None
    exported.model.metadata_props["classes"] = json.dumps(classes)
    content: bytes = exported.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return content, session.run(None, {"rows": rows.numpy()})[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporters' warnings about their own deprecations and optional packages."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
