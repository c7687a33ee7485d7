"""Devices, precision and ranks of a run, on Lightning Fabric."""

import json
import logging
import multiprocessing
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib.util import find_spec
from multiprocessing.util import Finalize
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from momentalign._extras import require_lightning
from momentalign._files import DiskFullError
from momentalign._format import pluralize
from momentalign._machine import cpu_bfloat16_works
from momentalign._validation import check_choice
from momentalign.algorithms import Algorithm
from momentalign.encoders import Encoder
from momentalign.training._data import DatasetRows
from momentalign.training._steps import Training

# A rank that fails reports its error; warnings that the others were ended are noise.
logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)
# Set on import, so that it holds in spawned ranks too.
for _package in ("lightning.fabric", "lightning.pytorch", "lightning_fabric", "pytorch_lightning"):
    for _module in ("distributed", "rank_zero"):
        logging.getLogger(f"{_package}.utilities.{_module}").setLevel(logging.WARNING)

ACCELERATORS = ("auto", "cpu", "cuda")


def takes_cuda(accelerator: str) -> bool:
    """Whether a run uses CUDA; "auto" does if a CUDA device is available."""
    check_choice("device", accelerator, ACCELERATORS)
    return accelerator == "cuda" or (accelerator == "auto" and torch.cuda.is_available())


def make_fabric(*, devices: int, accelerator: str, precision: str) -> Any:
    """Make the Fabric of a run, not launched; raises ValueError if there are no such devices."""
    here = torch.cuda.device_count() if torch.cuda.is_available() else 0
    accelerator = "cuda" if takes_cuda(accelerator) else "cpu"
    if accelerator == "cuda" and devices > here:
        asked = pluralize(devices, "CUDA device")
        raise ValueError(f"The run asks for {asked}, but torch sees {here} here. Use --device cpu.")
    check_precision(precision, accelerator)
    if (devices, accelerator, precision) == (1, "cpu", "32"):
        return _OneCpu()
    strategy: Any = "auto"
    if devices > 1:
        # Spawned: works without a script to start again.
        strategy = require_lightning("fabric.strategies", "Training needs").DDPStrategy(start_method="spawn")
    return require_lightning("fabric", "Training needs").Fabric(
        accelerator=accelerator,
        devices=devices,
        strategy=strategy,
        precision="bf16-mixed" if precision == "bf16" else "32-true",
    )


class _OneCpu:
    """Replacement for the Fabric of one CPU in full precision.

    Importing Lightning takes as long as a hundred steps of a small network.
    """

    device = torch.device("cpu")
    global_rank = 0
    world_size = 1
    strategy = SimpleNamespace(precision=SimpleNamespace(precision="32-true"))

    def launch(self, function: Callable[[Any], Any]) -> Any:
        return function(self)

    def autocast(self) -> AbstractContextManager[None]:
        return nullcontext()

    def backward(self, loss: Tensor) -> None:
        loss.backward()

    def barrier(self) -> None:
        pass

    def all_reduce(self, tensor: Tensor, reduce_op: str) -> Tensor:
        return tensor


def check_precision(precision: str, accelerator: str) -> None:
    """Raise ValueError where a run would use bfloat16 on a CPU that crashes on it."""
    if precision == "bf16" and not takes_cuda(accelerator) and not cpu_bfloat16_works():
        raise ValueError(
            "bfloat16 should work on the CPU, but crashes on this one (illegal instruction). "
            "Set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16, or use --precision 32."
        )


def to_device(algorithm: Algorithm, device: torch.device) -> Algorithm:
    """Move an algorithm with its network; on CUDA in channels-last format, in which convolutions are fastest."""
    algorithm.to(device)
    if device.type == "cuda":
        algorithm.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return algorithm


@contextmanager
def tuned_convolutions(rows: DatasetRows) -> Iterator[None]:
    """Let cuDNN benchmark its algorithms where the data are on a GPU: few shapes, and a small network.

    For large networks and a loader's batches of many sizes, benchmarking takes longer than it saves.
    """
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = before or (rows.on_device and rows.targets.is_cuda)
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def wrap_network(fabric: Any, network: nn.Module) -> nn.Module:
    """Wrap a network in the Fabric's precision and for all ranks; with one device in full precision it is unchanged."""
    if fabric.world_size > 1:
        wrapped: nn.Module = fabric.setup_module(network)
        return wrapped
    return network if fabric.strategy.precision.precision == "32-true" else _Autocast(network, fabric)


class _Autocast(nn.Module):
    """Forward pass in Fabric's precision, results in float32.

    Fabric's wrapper forbids what some algorithms need: gradients without its `backward`.
    """

    def __init__(self, network: nn.Module, fabric: Any) -> None:
        super().__init__()
        self.network = network
        self.autocast = fabric.autocast

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        with self.autocast():
            features, logits = self.network(inputs)
        return features.float(), logits.float()


_KINDS = {kind.__name__: kind for kind in (DiskFullError, OSError, ModuleNotFoundError, TypeError, ValueError)}
"""Errors that are for users, the most specific first; raised again from a rank's report as the same type."""


def launch(fabric: Any, function: Callable[[Any], Any]) -> Any:
    """Call a function with the Fabric on every rank, and return what the first rank returned.

    An error of one of several ranks is raised again as its kind with its message where it is for users, else as a
    RuntimeError with the rank's traceback as its cause.
    """
    from torch.multiprocessing.spawn import ProcessRaisedException

    with tempfile.TemporaryDirectory() as reports:
        try:
            return fabric.launch(partial(_reporting, function=function, reports=Path(reports)))
        except ProcessRaisedException as error:
            report = Path(reports, str(error.error_index))
            if not report.exists():
                raise
            fields = json.loads(report.read_text(encoding="utf-8"))
            if fields["kind"] in _KINDS:
                raise _KINDS[fields["kind"]](fields["message"]) from None
            raise RuntimeError(f"Rank {error.error_index} failed: {fields['message']}") from error


def _reporting(fabric: Any, function: Callable[[Any], Any], reports: Path) -> Any:
    """Call a function; of several ranks, write an error's fields to a file, since torch sends a traceback only."""
    try:
        return function(fabric)
    except Exception as error:
        if fabric.world_size > 1:
            kind = next((name for name, kind in _KINDS.items() if isinstance(error, kind)), None)
            message = str(error) if kind else f"{type(error).__name__}: {error}"
            fields = json.dumps({"kind": kind, "message": message})
            (reports / str(fabric.global_rank)).write_text(fields, encoding="utf-8")
        raise


def exit_after_training(fabric: Any) -> None:
    """End a spawned rank without the interpreter's shutdown.

    Sometimes a thread of gloo outlives the process group and aborts, which would look like a failure.
    """
    if fabric.world_size > 1 and multiprocessing.parent_process() is not None:
        fabric.barrier()
        Finalize(None, _exit, exitpriority=-100)


def _exit() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def device_name(device: torch.device) -> str:
    """Name of a device in `run.json`."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def warn_other_threads(before: int | None, threads: int, device: torch.device) -> None:
    """Warn that a run resumes with another number of threads than before, which changes rounding on a CPU."""
    if device.type == "cpu" and before is not None and before != threads:
        warnings.warn(
            f"The run was begun with {pluralize(before, 'thread')} and resumes with {threads}, so its weights differ "
            f"from an uninterrupted run's by rounding. Use OMP_NUM_THREADS={before}, or the same --jobs of a sweep.",
            stacklevel=2,
        )


def reset_peak_memory(device: torch.device) -> None:
    """Reset the peak of a GPU before a run; on the host it is the process's."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: torch.device) -> dict[str, float]:
    """Peak memory in GiB, by the name of its record."""
    if device.type == "cuda":
        return {"memory_gib": torch.cuda.max_memory_allocated(device) / 2**30}
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return {}
    unit = 2**30 if sys.platform == "darwin" else 2**20
    return {"memory_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit}


def choose_capture(asked: bool | None, training: Training, encoder: Encoder, ranks: int) -> bool:
    """Whether steps become a CUDA graph, by default where possible; ValueError if asked for where they cannot."""
    alone = ranks == 1 and training.device.type == "cuda"
    possible = alone and encoder.capturable and training.algorithm.capturable
    if asked and not possible:
        raise ValueError(
            "'capture' needs one CUDA device, an encoder of images or numbers, and a capturable algorithm. Omit it."
        )
    return possible if asked is None else asked


def check_ranks(algorithm: Algorithm, name: str, ranks: int) -> None:
    """Raise ValueError where several ranks would not give the same step as one."""
    if ranks == 1:
        return
    if not algorithm.distributed:
        raise ValueError(f"'{name}' works on one device only. Use --devices 1.")
    if any(isinstance(module, _BatchNorm) and module.training for module in algorithm.modules()):
        raise ValueError(
            "Batch normalisation that is trained, as with random weights, uses the rows of one device only. Use "
            "--devices 1, or a pretrained encoder, which keeps its statistics."
        )


def check_installed() -> None:
    """Raise ModuleNotFoundError if Lightning is not installed, without importing it."""
    if find_spec("lightning") is None and find_spec("lightning_fabric") is None:
        require_lightning("fabric", "Training needs")
