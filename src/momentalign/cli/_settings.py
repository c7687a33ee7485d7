"""What several commands take: `--set NAME=VALUE` and `--device`."""

import json
from typing import Any


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Values of `--set NAME=VALUE`: numbers where they look like numbers, else words.

    Args:
        pairs: As typed.

    Returns:
        The values by name.

    Raises:
        ValueError: Something else than NAME=VALUE.

    Example:
        >>> parse_settings(["lr=1e-3", "solver=sgd"])
        {'lr': 0.001, 'solver': 'sgd'}
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"'--set' should look like NAME=VALUE, but is '{pair}'.")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def find_device(name: str) -> str:
    """The name of a device that torch can use here.

    Args:
        name: As typed; "auto" for CUDA where there is one.

    Returns:
        The name.

    Raises:
        ValueError: There is no such device.
    """
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError):
        raise ValueError(
            f"'--device' should be auto, or cpu, cuda or cuda:1 where torch can use it, but is '{name}'. Use cpu."
        ) from None
    return name
