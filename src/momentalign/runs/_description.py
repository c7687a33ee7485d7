"""Types of the values in `run.json`."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_INT64 = 2**63


class _Kind(NamedTuple):
    name: str
    check: Callable[[Any], bool]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _INT64


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(part, dict) and all(map(_is_count, part.values())) for part in value.values()
    )


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(text is None or _is_text(text) for text in value.values())


def _optional(kind: _Kind) -> _Kind:
    return _Kind(f"{kind.name} or null", lambda value: value is None or kind.check(value))


_TEXT = _Kind("text", _is_text)
_COUNT = _Kind("a whole number from 0 to 2^63 - 1", _is_count)
_NUMBER = _Kind("a number", _is_number)
_NAMES = _Kind("a list of names", _is_names)
_OBJECT = _Kind("an object", lambda value: isinstance(value, dict))
_FLAG = _Kind("true or false", lambda value: isinstance(value, bool))
_TEXTS = _Kind("an object of texts", _is_texts)
_COUNTS = _Kind("an object of objects of whole numbers", _is_counts)

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
_CONFIG = {
    "dataset": _TEXT,
    "algorithm": _TEXT,
    "test_domains": _NAMES,
    "trial": _COUNT,
    "hparams_seed": _COUNT,
    "hparams": _OBJECT,
    "steps": _COUNT,
    "record_every": _COUNT,
    "encoder": _optional(_TEXT),
    "holdout": _NUMBER,
    "precision": _TEXT,
    "setting": _TEXT,
    "pool": _FLAG,
    "average": _TEXT,
    "preset": _TEXT,
    "augment": _TEXT,
}


def check_description(info: Mapping[str, Any]) -> None:
    """Raise ValueError where a value of `run.json` has the wrong type; missing and unknown keys are accepted."""
    _check(info, _RUN)
    _check(info["config"], _CONFIG)


def _check(values: Mapping[str, Any], kinds: Mapping[str, _Kind]) -> None:
    for name, kind in kinds.items():
        if name in values and not kind.check(values[name]):
            raise ValueError(f"'{name}' should be {kind.name}, but is {repr(values[name])[:40]}")
