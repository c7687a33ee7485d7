import pytest

from momentalign._words import counted, duration, listed, volume


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (75, "75 s"), (100, "2 min"), (5400, "1.5 h"), (172800, "2.0 days")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(("size", "words"), [(10, "1 KiB"), (3 * 2**20, "3.0 MiB"), (2**31, "2.0 GiB")])
def test_volumes(size: float, words: str) -> None:
    assert volume(size) == words


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [
        (0, "run", "0 runs"),
        (1, "run", "1 run"),
        (2, "set of hyper-parameters", "2 sets of hyper-parameters"),
        (1, "address", "1 address"),
        (3, "address", "3 addresses"),
    ],
)
def test_counted(number: int, noun: str, words: str) -> None:
    assert counted(number, noun) == words


def test_listed() -> None:
    assert [listed(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
