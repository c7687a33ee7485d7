"""Import optional dependencies where they are needed."""

import importlib
from typing import Any

_PACKAGES = {"PIL": "Pillow", "lightning": "Lightning Fabric", "ray": "Ray"}
"""Packages whose name differs from their module."""


def require(module: str, user: str, *, extra: str, alternative: str = "") -> Any:
    """Import a module, or raise ModuleNotFoundError with the pip command that installs it.

    `user` starts the message, with its verb: "Tables need"; `alternative` ends it: ", or write an .npz".
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).partition(".")[0]
        raise ModuleNotFoundError(
            f"{user} {_PACKAGES.get(missing, missing)}, which is not installed. Use pip install "
            f"'momentalign[{extra}]'{alternative}.",
            name=missing,
        ) from None
