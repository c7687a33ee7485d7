"""What this process may use of the machine, and which files on it are this package's."""

import os
from pathlib import Path

_HERE = Path(__file__).parent


def available_cores() -> int:
    """Number of cores that this process may run on: in a container perhaps fewer than the machine has."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows
        return os.cpu_count() or 1


def is_ours(filename: str) -> bool:
    """Whether a file of code belongs to this package."""
    return Path(filename).is_relative_to(_HERE)
