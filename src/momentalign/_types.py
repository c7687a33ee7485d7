"""Types shared by the packages."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.integer]
ReportProgress = Callable[[str, float], None]
"""Called with the name of the current part and the fraction done, 0 to 1."""


def ignore_progress(part: str, fraction: float) -> None:
    """Progress that is not reported."""
