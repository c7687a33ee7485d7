import pytest

from momentalign._format import format_duration, format_size, join_first, join_names, pluralize, suggest


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0002, "0.2 ms"),
        (0.2, "0.2 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (192, "3 min 12 s"),
        (3599.7, "1 h"),
        (7512, "2 h 5 min"),
        (172799, "2 days"),
        (200000, "2 days 8 h"),
    ],
)
def test_durations(seconds: float, expected: str) -> None:
    assert format_duration(seconds) == expected


@pytest.mark.parametrize(("size", "expected"), [(10, "1 KiB"), (3 * 2**20, "3.0 MiB"), (2**31, "2.0 GiB")])
def test_sizes(size: float, expected: str) -> None:
    assert format_size(size) == expected


@pytest.mark.parametrize(
    ("number", "noun", "expected"),
    [
        (0, "run", "0 runs"),
        (1, "run", "1 run"),
        (2, "set of hyper-parameters", "2 sets of hyper-parameters"),
        (1, "address", "1 address"),
        (3, "address", "3 addresses"),
    ],
)
def test_pluralize(number: int, noun: str, expected: str) -> None:
    assert pluralize(number, noun) == expected


def test_join_names() -> None:
    assert [join_names(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_join_first() -> None:
    assert [join_first(["a", "b", "c"], limit) for limit in (2, 3)] == ["a, b and 1 more", "a, b, c"]


def test_suggest() -> None:
    assert suggest("cam", ["erm", "cma"]) == " Did you mean 'cma'?"
    assert suggest("something", ["erm", "cma"]) == ""
