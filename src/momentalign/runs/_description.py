"""Types of the values in `run.json`."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from momentalign.runs._config import RunConfig


class _Kind(NamedTuple):
    name: str
    check: Callable[[Any], bool]


def _optional(kind: _Kind) -> _Kind:
    return _Kind(f"{kind.name} or null", lambda value: value is None or kind.check(value))


def _object_of(kind: _Kind, name: str) -> _Kind:
    return _Kind(name, lambda value: isinstance(value, dict) and all(map(kind.check, value.values())))


# Exact types: in Python true is a whole number.
_TEXT = _Kind("text", lambda value: type(value) is str)
_COUNT = _Kind("a whole number from 0 to 2^63 - 1", lambda value: type(value) is int and 0 <= value < 2**63)
_NUMBER = _Kind("a number", lambda value: type(value) in (int, float))
_FLAG = _Kind("true or false", lambda value: type(value) is bool)
_OBJECT = _Kind("an object", lambda value: type(value) is dict)
_NAMES = _Kind("a list of names", lambda value: isinstance(value, list) and all(map(_TEXT.check, value)))
_TEXTS = _object_of(_optional(_TEXT), "an object of texts")
_COUNTS = _object_of(_object_of(_COUNT, "an object of whole numbers"), "an object of objects of whole numbers")

_RUN = {
    "momentalign": _optional(_TEXT),
    "hash": _TEXT,
    "config": _OBJECT,
    "domains": _NAMES,
    "num_classes": _optional(_COUNT),
    "classes": _optional(_NAMES),
    "status": _TEXT,
    "error": _optional(_TEXT),
    "diverged_at": _optional(_COUNT),
    "disk_full": _FLAG,
    "started": _optional(_TEXT),
    "finished": _optional(_TEXT),
    "versions": _optional(_TEXTS),
    "device": _optional(_TEXT),
    "data": _optional(_TEXT),
    "features": _optional(_TEXTS),
    "rows": _optional(_COUNTS),
    "group_rows": _optional(_COUNTS),
    "weights": _optional(_OBJECT),
}
_TYPES = {
    str: _TEXT,
    int: _COUNT,
    float: _NUMBER,
    bool: _FLAG,
    str | None: _optional(_TEXT),
    tuple[str, ...]: _NAMES,
    Mapping[str, Any]: _OBJECT,
}
_CONFIG = {item.name: _TYPES[item.type] for item in fields(RunConfig)}  # type: ignore[index]


def check_description(info: Mapping[str, Any]) -> None:
    """Raise ValueError where a value of `run.json` has the wrong type; missing and unknown keys are accepted."""
    _check(info, _RUN)
    _check(info["config"], _CONFIG)


def _check(values: Mapping[str, Any], kinds: Mapping[str, _Kind]) -> None:
    for name, kind in kinds.items():
        if name in values and not kind.check(values[name]):
            raise ValueError(f"'{name}' should be {kind.name}, but is {repr(values[name])[:40]}")
