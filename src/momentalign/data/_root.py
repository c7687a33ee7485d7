"""Where data sets lie."""

import os
from pathlib import Path


def data_folder(root: str | Path | None = None) -> Path:
    """The folder that data sets are read from and fetched into.

    Args:
        root: The folder itself; if not given the environment variable MOMENTALIGN_DATA names it, and where that is
            not set either it is ~/.cache/momentalign.

    Returns:
        The folder, which may not exist yet.
    """
    return Path(root or os.environ.get("MOMENTALIGN_DATA") or Path.home() / ".cache" / "momentalign").expanduser()
