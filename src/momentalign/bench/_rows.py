"""One measured line, and what was measured on."""

import importlib.metadata
import platform
from dataclasses import dataclass
from typing import Self

import torch

import momentalign
from momentalign.bench._measure import Measurement


@dataclass(frozen=True)
class Row:
    """A line of a table; numbers are None where nothing was run, and `note` says why."""

    table: str
    size: str
    name: str
    seconds: float | None = None
    peak_bytes: int | None = None
    time_ratio: float | None = None
    memory_ratio: float | None = None
    note: str = ""

    @classmethod
    def of(cls, table: str, size: object, name: str, found: Measurement, unit: Measurement, note: str = "") -> Self:
        """A row with ratios to the measurement that counts as one."""
        memory = found.peak_bytes / unit.peak_bytes if unit.peak_bytes else None
        time = found.seconds / unit.seconds
        return cls(table, str(size), name, found.seconds, found.peak_bytes or None, time, memory, note)


def environment(device: torch.device) -> dict[str, object]:
    """What a number depends on besides the code."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "momentalign": momentalign.__version__,
        "torch": torch.__version__,
        "numpy": importlib.metadata.version("numpy"),
        "python": platform.python_version(),
        "device": name,
        "threads": torch.get_num_threads(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }
