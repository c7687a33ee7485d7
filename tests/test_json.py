from pathlib import Path

import pytest

from momentalign._json import parse_json, read_json


def test_plain_data_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes('\ufeff{"a": [1, -2.5, 10000000000000000000000, "\\ud83d\\ude00 ü", null, true]}'.encode())
    assert read_json(path) == {"a": [1, -2.5, 10**22, "😀 ü", None, True]}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Expecting value, line 1"),
        (b"{\n", "line 2"),
        (b'"\xff"', "byte 1 is not UTF-8"),
        (b"[NaN]", "NaN is not a finite number"),
        (b"-Infinity", "-Infinity is not a finite number"),
        (100_000 * b"[", "nested too deeply"),
    ],
)
def test_what_later_code_could_not_hold_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_json(content)


def test_infinities_are_accepted_where_they_are_expected() -> None:
    assert parse_json(b"[Infinity, 1e999]", nonfinite=True) == [float("inf"), float("inf")]
