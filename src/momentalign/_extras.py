"""Libraries that only some of the package needs, imported where they are needed."""

import importlib
from typing import Any

_PACKAGES = {"PIL": "Pillow", "lightning": "Lightning Fabric", "ray": "Ray"}
"""Packages that go by another name than the modules in them."""


def need(module: str, who_needs: str, *, extra: str, otherwise: str = "") -> Any:
    """Import a library, or say what to install.

    Args:
        module: To import.
        who_needs: What needs it, with the verb: "Tables need".
        extra: Extra of this package that brings it.
        otherwise: What could be done instead, to end the sentence with.

    Returns:
        The module.

    Raises:
        ModuleNotFoundError: It is not installed, or something that it needs itself.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).partition(".")[0]
        raise ModuleNotFoundError(
            f"{who_needs} {_PACKAGES.get(missing, missing)}, which is not installed. Use pip install "
            f"'momentalign[{extra}]'{otherwise}.",
            name=missing,
        ) from None
