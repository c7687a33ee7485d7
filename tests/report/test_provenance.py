"""Values of many runs in one cell of the page's provenance."""

import pytest

from momentalign.report._provenance import _distinct, _range


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.5, 0.5, 0.5], "0.5"),
        ([3, 1, 2, 1], "3, 1, 2"),
        ([1, 2, 3, 4], "1, 2, 3, 4"),
        ([0.001, 1.0, 10.0, 5.0, 100.0, 5.0], "0.001 to 100 (5 values)"),
        ([1 / 3, "classes"], "0.3333, classes"),
        ([True, False, True], "True, False"),
        (list("abcdefgh"), "a, b, c, d, e, f, g, h"),
        (list("abcdefghi"), "a, b, c, d, e, f, g, h …"),
        ([1, 2, 3, 4, "five"], "1, 2, 3, 4, five"),
    ],
)
def test_hyperparameters_are_listed_while_they_are_few_and_a_range_of_numbers_then(values: list, text: str) -> None:
    assert _range(values) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (["adam", "adam"], "adam"),
        ([None, None], "not recorded"),
        (["adam", "sgd", None, "sgd"], "sgd (2 runs), adam (1 runs), not recorded (1 runs)"),
        (list("aabbccddeeff"), ", ".join(f"{name} (2 runs)" for name in "abcdef")),
        (list("aabbccddeeffg"), ", ".join(f"{name} (2 runs)" for name in "abcdef") + " …"),
    ],
)
def test_values_of_several_runs_come_with_their_number(values: list, text: str) -> None:
    assert _distinct(values) == text
