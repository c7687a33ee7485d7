"""Devices, precision and ranks of a run, on Lightning Fabric."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from momentalign._extras import require_lightning
from momentalign._files import DiskFullError
from momentalign._machine import cpu_bfloat16_works
from momentalign._validation import check_choice

ACCELERATORS = ("auto", "cpu", "cuda")
_ERRORS = {kind.__name__: kind for kind in (DiskFullError, OSError, ModuleNotFoundError, TypeError, ValueError)}


def takes_cuda(accelerator: str) -> bool:
    """Whether a run uses CUDA; "auto" does if a CUDA device is available."""
    check_choice("device", accelerator, ACCELERATORS)
    return accelerator == "cuda" or (accelerator == "auto" and torch.cuda.is_available())


def make_fabric(*, devices: int, accelerator: str, precision: str) -> Any:
    """Make the Fabric of a run, not launched; raises ValueError if there are no such devices."""
    here, kind = torch.cuda.device_count(), "cuda" if takes_cuda(accelerator) else "cpu"
    if kind == "cuda" and devices > here:
        raise ValueError(f"The run asks for CUDA devices: {devices}, but torch sees {here} here. Use --device cpu.")
    check_precision(precision, kind)
    if (devices, kind, precision) == (1, "cpu", "32"):  # importing Lightning takes three times as long as torch
        return SimpleNamespace(
            device=torch.device("cpu"),
            global_rank=0,
            world_size=1,
            strategy=SimpleNamespace(precision=SimpleNamespace(precision="32-true")),
            autocast=nullcontext,
            backward=Tensor.backward,
            barrier=lambda: None,
            all_reduce=lambda tensor, reduce_op: tensor,
        )
    strategy: Any = "auto"
    if devices > 1:  # spawned: works without a script to start again
        strategy = require_lightning("fabric.strategies", "Training needs").DDPStrategy(start_method="spawn")
    options = {"strategy": strategy, "precision": "bf16-mixed" if precision == "bf16" else "32-true"}
    return require_lightning("fabric", "Training needs").Fabric(accelerator=kind, devices=devices, **options)


def launch(fabric: Any, function: Callable[[Any], Any]) -> Any:
    """Call a function with the Fabric on every rank, and return what the first rank returned."""
    if not hasattr(fabric, "launch"):
        return function(fabric)
    from torch.multiprocessing.spawn import ProcessRaisedException

    try:
        return fabric.launch(function)
    except ProcessRaisedException as error:  # whose text ends with the rank's own error
        kind, _, message = str(error).strip().rpartition("\n")[2].partition(": ")
        raise _ERRORS.get(kind.rpartition(".")[2], RuntimeError)(message or kind) from error


def check_precision(precision: str, accelerator: str) -> None:
    """Raise ValueError where a run would use bfloat16 on a CPU that crashes on it."""
    if precision == "bf16" and not takes_cuda(accelerator) and not cpu_bfloat16_works():
        raise ValueError(
            "bfloat16 should work on the CPU, but crashes on this one (illegal instruction). "
            "Set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16, or use --precision 32."
        )


def wrap_network(fabric: Any, network: nn.Module) -> nn.Module:
    """Wrap a network in the Fabric's precision and for all ranks; with one device in full precision it is unchanged."""
    if fabric.world_size > 1:
        wrapped: nn.Module = fabric.setup_module(network)
        return wrapped
    return network if fabric.strategy.precision.precision == "32-true" else _Autocast(network, fabric)


class _Autocast(nn.Module):
    """Forward pass in Fabric's precision, results in float32; Fabric's wrapper forbids gradients without `backward`."""

    def __init__(self, network: nn.Module, fabric: Any) -> None:
        super().__init__()
        self.network, self.autocast = network, fabric.autocast

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        with self.autocast():
            features, logits = self.network(inputs)
        return features.float(), logits.float()


def peak_memory(device: torch.device) -> dict[str, float]:
    """Peak memory in GiB, by the name of its record; on the host it is the process's."""
    if device.type == "cuda":
        return {"memory_gib": torch.cuda.max_memory_allocated(device) / 2**30}
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return {}
    unit = 2**30 if sys.platform == "darwin" else 2**20
    return {"memory_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit}


def check_installed() -> None:
    """Raise ModuleNotFoundError if Lightning is not installed, without importing it."""
    if find_spec("lightning") is None and find_spec("lightning_fabric") is None:
        require_lightning("fabric", "Training needs")
