"""Where a run runs: Lightning Fabric for devices, precision and ranks."""

import importlib
import json
import logging
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from momentalign._extras import require
from momentalign._files import DiskFullError
from momentalign._format import pluralize
from momentalign._machine import cpu_bfloat16_works
from momentalign._validation import check_choice
from momentalign.algorithms import Algorithm
from momentalign.encoders import MLP, MNIST_CNN, Encoder
from momentalign.training._rows import Rows
from momentalign.training._steps import Training

# A rank that fails says what it has to say; that the others are then ended is no news.
logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)
# Set on import, so that it holds in spawned ranks too: what Fabric says of its own doings is no news to a user.
for _package in ("lightning.fabric", "lightning.pytorch", "lightning_fabric", "pytorch_lightning"):
    for _module in ("distributed", "rank_zero"):
        logging.getLogger(f"{_package}.utilities.{_module}").setLevel(logging.WARNING)

ACCELERATORS = ("auto", "cpu", "cuda")


def takes_cuda(accelerator: str) -> bool:
    """Whether a run with this choice of device is to be on CUDA; "auto" takes it where there is one."""
    check_choice("device", accelerator, ACCELERATORS)
    return accelerator == "cuda" or (accelerator == "auto" and torch.cuda.is_available())


def make_fabric(*, devices: int, accelerator: str, precision: str) -> Any:
    """Make the Fabric of a run, not launched yet.

    Args:
        devices: Number of processes, each with a device of its own.
        accelerator: "cpu", "cuda", or "auto" for CUDA where there is one.
        precision: "32" or "bf16".

    Returns:
        The Fabric.

    Raises:
        ValueError: There are no such devices here.
        ModuleNotFoundError: Lightning is not installed.
    """
    here = torch.cuda.device_count() if torch.cuda.is_available() else 0
    accelerator = "cuda" if takes_cuda(accelerator) else "cpu"
    if accelerator == "cuda" and devices > here:
        asked = pluralize(devices, "CUDA device")
        raise ValueError(f"The run asks for {asked}, but torch sees {here} here. Use --device cpu.")
    check_precision(precision, accelerator)
    fabric, strategies = _lightning()
    strategy: Any = "auto"
    if devices > 1:
        # Spawned: a function can be launched from anywhere, also where there is no script to start again.
        strategy = strategies.DDPStrategy(start_method="spawn")
    return fabric(
        accelerator=accelerator,
        devices=devices,
        strategy=strategy,
        precision="bf16-mixed" if precision == "bf16" else "32-true",
    )


def check_precision(precision: str, accelerator: str) -> None:
    """Raise ValueError where a run would use bfloat16 on a CPU that crashes on it."""
    if precision == "bf16" and not takes_cuda(accelerator) and not cpu_bfloat16_works():
        raise ValueError(
            "bfloat16 should work on the CPU, but crashes on this one (illegal instruction). "
            "Set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16, or use --precision 32."
        )


def to_device(algorithm: Algorithm, device: torch.device) -> Algorithm:
    """Move an algorithm with its network; on CUDA in the memory format that convolutions are fastest in."""
    algorithm.to(device)
    if device.type == "cuda":
        algorithm.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return algorithm


@contextmanager
def tuned_convolutions(rows: Rows) -> Iterator[None]:
    """Let cuDNN try its algorithms for every shape once, where the data are on a GPU: few shapes, and a small network.

    A large one has many convolutions, and a loader's batches many sizes: trying takes longer than it saves.
    """
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = before or (rows.on_device and rows.targets.is_cuda)
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def place(fabric: Any, network: nn.Module) -> nn.Module:
    """Make the network one that algorithms can call on this Fabric: on its device, in its precision, over all ranks.

    Args:
        fabric: Launched.
        network: On the device already.

    Returns:
        A module to call in the network's place; with one device in full precision the network itself.
    """
    if fabric.world_size > 1:
        wrapped: nn.Module = fabric.setup_module(network)
        return wrapped
    return network if fabric.strategy.precision.precision == "32-true" else _Autocast(network, fabric)


class _Autocast(nn.Module):
    """Forward pass in Fabric's precision, results in float32.

    Fabric's own wrapper would do, but forbids what some algorithms need: gradients without its `backward`.
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
"""Errors that are for users: raised again from a rank's report as what they are, the most specific first."""


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


def leave(fabric: Any) -> None:
    """Let a rank that has done its work end without the interpreter's own way out.

    Now and then a thread of gloo's outlives the group and aborts it, which would look like a failure.
    """
    if fabric.world_size > 1 and multiprocessing.parent_process() is not None:
        fabric.barrier()
        Finalize(None, _exit, exitpriority=-100)


def _exit() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def device_name(device: torch.device) -> str:
    """What a device is called in `run.json`."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def forget_peak(device: torch.device) -> None:
    """Let a run's peak of memory be its own, where a process does run after run. A host's is the process's."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_gib(device: torch.device) -> dict[str, float]:
    """Most memory that was in use, by the name it is recorded under."""
    if device.type == "cuda":
        return {"memory_gib": torch.cuda.max_memory_allocated(device) / 2**30}
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return {}
    unit = 2**30 if sys.platform == "darwin" else 2**20
    return {"memory_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit}


def choose_capture(asked: bool | None, training: Training, encoder: Encoder, ranks: int) -> bool:
    """Whether steps become a CUDA graph: where they can, unless somebody says otherwise.

    Args:
        asked: What was asked for; None for what is best.
        training: What a step works with.
        encoder: The network's encoder.
        ranks: Number of processes.

    Returns:
        Whether.

    Raises:
        ValueError: It was asked for where something in a step has to wait for the device.
    """
    ours = isinstance(encoder, MNIST_CNN | MLP)
    alone = ranks == 1 and training.rows.on_device and training.device.type == "cuda"
    possible = ours and alone and training.algorithm.capturable
    if asked and not possible:
        raise ValueError(
            "'capture' needs one CUDA device with the data on it, MNIST_CNN or MLP, and an algorithm that reads "
            "nothing back. Leave it out."
        )
    return possible if asked is None else asked


def check_ranks(algorithm: Algorithm, name: str, ranks: int) -> None:
    """Raise ValueError where several ranks would not give the step of one."""
    if ranks == 1:
        return
    if not algorithm.distributed:
        raise ValueError(f"'{name}' works on one device only. Use --devices 1.")
    if any(isinstance(module, _BatchNorm) and module.training for module in algorithm.modules()):
        raise ValueError(
            "Batch normalisation that is trained, as with random weights, sees the rows of one device only. Use "
            "--devices 1, or a pretrained encoder, which keeps its statistics."
        )


def check_installed() -> None:
    """Raise ModuleNotFoundError where what training needs is not installed; nothing is imported."""
    if find_spec("lightning") is None and find_spec("lightning_fabric") is None:
        _lightning()


def _lightning() -> tuple[Any, Any]:
    # The package pytorch-lightning brings it under a name of its own.
    alone = find_spec("lightning") is None and find_spec("lightning_fabric") is not None
    name = "lightning_fabric" if alone else "lightning.fabric"
    fabric = require(name, "Training needs", extra="train")
    return fabric.Fabric, importlib.import_module(f"{name}.strategies")
