"""Cells of the report's matrices, without a report."""

import re

import numpy as np
import pytest

from momentalign.theory._inputs import as_features
from momentalign.theory._render import _NAME_WIDTH, _heat_map, _quantities, _short, _text_cells
from momentalign.theory._tables import DomainMatrix, Quantity


def cells(matrix: DomainMatrix) -> list[tuple[str, str]]:
    """Attributes and text of the page's cells, row by row, without the empty corner."""
    page = _heat_map(matrix, ["a", "b"])
    return re.findall(r"<td([^>]*)>(.*?)</td>", page.partition("<tbody>")[2])


def test_a_domain_has_no_distance_from_itself_and_missing_ones_are_dashes() -> None:
    own, other, missing, last = cells(DomainMatrix("t", np.array([[7.0, 2.5], [np.nan, 7.0]]), "r"))
    assert own == last == (" class='none'", "")
    assert missing == (" class='none'", "–")
    assert other[1] == "2.5"


def test_the_colour_is_the_share_of_the_largest_entry() -> None:
    values = np.array([[0.0, 4.0], [1.0, 0.0]])
    _, largest, quarter, _ = cells(DomainMatrix("t", values, "r", (values - 0.5, values + 0.5)))
    assert largest == (
        " class='strong' style='background: rgba(245, 158, 11, 0.90)'",
        "4<small>3.5 to 4.5</small>",
    )
    assert quarter == (" style='background: rgba(245, 158, 11, 0.23)'", "1<small>0.5 to 1.5</small>")
    for nothing in (np.zeros((2, 2)), np.array([[0.0, -1.0], [-1.0, 0.0]])):
        assert all("0.00)" in style for style, _ in cells(DomainMatrix("t", nothing, "r"))[1:3])


@pytest.mark.parametrize(("value", "row"), [(np.nan, 0), ([[1.0], [np.inf], [np.nan]], 1)])
def test_the_first_row_that_is_not_finite_is_named(value: object, row: int) -> None:
    with pytest.raises(ValueError, match=f"first in row {row}"):
        as_features("X", value)


def test_long_names_are_cut_to_a_width_with_a_sign() -> None:
    assert _short("x" * _NAME_WIDTH) == "x" * _NAME_WIDTH
    assert _short("x" * (_NAME_WIDTH + 1)) == "x" * (_NAME_WIDTH - 1) + "…"


def test_matrices_as_text_have_dashes_for_missing_entries_and_an_empty_diagonal() -> None:
    values = np.array([[7.0, 2.56789], [np.nan, 7.0]])
    assert _text_cells(DomainMatrix("t", values, "r")) == [["", "2.568"], ["–", ""]]
    with_ends = DomainMatrix("t", values, "r", (values - 0.5, values + 0.25))
    assert _text_cells(with_ends) == [["", "2.568 [2.07, 2.82]"], ["–", ""]]


def test_quantities_as_text_are_aligned() -> None:
    lines = _quantities([Quantity("a bound", 0.125, "why"), Quantity("b", np.nan, "none")]).splitlines()
    assert lines == ["  a bound      0.125  why", "  b                –  none"]
