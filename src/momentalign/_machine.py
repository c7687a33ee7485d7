"""The machine: cores and memory that this process may use, whether bfloat16 works on the CPU, files of this package."""

import os
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent
_MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""Limit of a container."""

_BFLOAT16_STEP = """
import torch
layer, inputs = torch.nn.Conv2d(16, 16, 3), torch.randn(8, 16, 16, 16)
with torch.autocast("cpu", torch.bfloat16):
    loss = layer(inputs).flatten(1)[:, :64].matmul(torch.randn(64, 64)).sum()
loss.backward()
"""


def available_cores() -> int:
    """Number of cores that this process may use; in a container perhaps fewer than the machine has."""
    import joblib  # type: ignore[import-untyped]  # knows the quota of a container

    number: int = joblib.cpu_count()
    return number


def available_memory(meminfo: Path = Path("/proc/meminfo"), limit: Path = _MEMORY_LIMIT) -> int | None:
    """Bytes that this process may still use: in a container perhaps fewer than the machine has; None if unknown."""
    found = []
    with suppress(OSError, ValueError, StopIteration):
        line = next(line for line in meminfo.read_text().splitlines() if line.startswith("MemAvailable:"))
        found.append(1024 * int(line.split()[1]))
    with suppress(OSError, ValueError):  # no container, or "max"
        found.append(int(limit.read_text()) - int(limit.with_name("memory.current").read_text()))
    if not found:
        with suppress(AttributeError, ValueError, OSError):  # Windows
            found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(found, default=None)


def is_ours(filename: str) -> bool:
    """Whether a source file belongs to this package."""
    return Path(filename).is_relative_to(_PACKAGE)


def cpu_bfloat16_works() -> bool:
    """Whether bfloat16 works on this CPU.

    Some virtual machines announce AMX and trap its instructions, which kills the process. So a bfloat16 step runs once
    in a subprocess with the same environment, unless the CPU has no AMX.
    """
    return _survives_bfloat16(sys.executable, os.environ.get("ONEDNN_MAX_CPU_ISA"))


@cache
def _survives_bfloat16(python: str, isa: str | None, cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Run the step with a Python interpreter; the environment's `isa` is part of the cache's key."""
    try:
        if "amx" not in cpuinfo.read_text():
            return True
    except OSError:  # not Linux
        pass
    # Only a signal counts: torch may fail to import for reasons that have nothing to do with the CPU.
    return subprocess.run([python, "-c", _BFLOAT16_STEP], capture_output=True, check=False).returncode >= 0
