"""The machine: cores that this process may use, whether bfloat16 works on the CPU, files of this package."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent

_BFLOAT16_STEP = """
import torch
layer, inputs = torch.nn.Conv2d(16, 16, 3), torch.randn(8, 16, 16, 16)
with torch.autocast("cpu", torch.bfloat16):
    loss = layer(inputs).flatten(1)[:, :64].matmul(torch.randn(64, 64)).sum()
loss.backward()
"""


def available_cores() -> int:
    """Number of cores that this process may use: in a container, or with a quota, fewer than the machine has."""
    from joblib import cpu_count  # type: ignore[import-untyped]  # ships no types

    return int(cpu_count())


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
