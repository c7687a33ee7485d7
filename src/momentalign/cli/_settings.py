"""`--set NAME=VALUE`, which several commands take."""

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
