"""Reading of JSON, with a short reason where it is damaged."""

import json
from pathlib import Path
from typing import Any


def read_json(path: Path, *, nonfinite: bool = False) -> Any:
    """Read a JSON file; raises OSError, else as :func:`parse_json`."""
    return parse_json(path.read_bytes(), nonfinite=nonfinite)


def parse_json(content: bytes, *, nonfinite: bool = False) -> Any:
    """Parse JSON in UTF-8; raises ValueError with a short reason, also for NaN and infinities unless `nonfinite`."""
    try:
        return json.loads(content.decode("utf-8-sig"), parse_constant=float if nonfinite else _refuse)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg}, line {error.lineno}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a finite number")
