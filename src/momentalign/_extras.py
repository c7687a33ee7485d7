"""Import optional dependencies where they are needed."""

import importlib
from importlib.util import find_spec
from typing import Any

_PACKAGES = {"PIL": "Pillow", "lightning": "Lightning Fabric", "ray": "Ray"}
"""Packages whose name differs from their module."""
_LIGHTNING = {"fabric": "lightning_fabric", "pytorch": "pytorch_lightning"}
"""Modules of the packages lightning-fabric and pytorch-lightning, which can be installed instead of lightning."""


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


def require_lightning(part: str, user: str) -> Any:
    """Import a part of Lightning, "fabric.strategies" or "pytorch" for instance, from whichever package has it."""
    package, dot, rest = part.partition(".")
    alone = find_spec("lightning") is None and find_spec(_LIGHTNING[package]) is not None
    root = _LIGHTNING[package] if alone else f"lightning.{package}"
    return require(f"{root}{dot}{rest}", user, extra="train")
