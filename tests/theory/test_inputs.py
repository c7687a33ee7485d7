"""Bad input is answered before any work: what was expected, what was found, what to do."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from momentalign.theory import moment_gaps, transfer_report
from momentalign.theory._inputs import as_features, as_labels, as_outcomes, index_known_labels, index_labels

RNG = np.random.default_rng(0)
GOOD: dict[str, Any] = {
    "X": RNG.normal(size=(40, 3)),
    "y": np.arange(40) % 2,
    "domains": np.repeat(["a", "b"], 20),
}


def with_nan(array: np.ndarray) -> np.ndarray:
    changed = array.astype(float)
    changed[7] = np.nan
    return changed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"domains": ["a"] * 40}, r"'domains' should name at least two domains, but all 40 rows are of 'a'"),
        ({"domains": ["a"] * 39}, r"'domains' should have one entry per row of 'X' \(40\), but has shape \(39,\)"),
        (
            {"domains": ["a"] * 39 + [None]},
            r"'domains' should hold a label for every row, but 1 are missing, first in row 39",
        ),
        ({"domains": [["a"]] * 40}, r"'domains' should have one entry per row of 'X' \(40\), but has shape \(40, 1\)"),
        ({"X": with_nan(GOOD["X"])}, r"'X' should be finite, but has 3 NaN or infinite, first in row 7"),
        ({"X": GOOD["X"][:0]}, r"'X' should have at least one row, but has none"),
        ({"X": GOOD["X"][:, 0]}, r"'X' should have shape \(n, d\), but has shape \(40,\)\. One feature"),
        ({"y": GOOD["y"][:39]}, r"'y' should have one entry per row of 'X' \(40\), but has shape \(39,\)"),
        ({"y": with_nan(GOOD["y"])}, r"'y' should hold a label for every row, but 1 are missing, first in row 7"),
        ({"y": np.zeros(40, int)}, r"'y' should hold at least two classes, but all rows are of class 0"),
        ({"y": RNG.normal(size=40)}, r"but holds real numbers\. Use loss='squared_error'"),
        ({"y": np.arange(40) % 3, "loss": "logistic"}, r"'y' should hold two classes for loss 'logistic', but holds 3"),
        ({"y": with_nan(GOOD["y"]), "loss": "squared_error"}, r"'y' should be finite"),
        ({"loss": "cross-entropy"}, r"'loss' should be one of .* Did you mean 'cross_entropy'\?"),
        ({"radius": 0}, r"'radius' should be finite and above 0, but is 0\. It is √δ"),
        ({"radius": float("nan")}, r"'radius' should be finite and above 0, but is nan"),
        ({"l2": 0.0}, r"'l2' should be finite and above 0, but is 0.0\. Without it"),
        ({"order": 5}, r"'order' should be between 1 and 4 for loss 'cross_entropy', but is 5"),
        ({"order": 0}, r"'order' should be between 1 and 4 for loss 'cross_entropy', but is 0"),
        ({"level": 0.0}, r"'level' should lie between 0 and 1, but is 0.0"),
        ({"level": 1.0}, r"'level' should lie between 0 and 1, but is 1.0"),
        ({"level": 1.5}, r"'level' should lie between 0 and 1, but is 1.5\. Use 0.9"),
        ({"resamples": 3}, r"'resamples' should be at least 20, but is 3"),
        ({"restarts": -1}, r"'restarts' should be at least 0, but is -1"),
        ({"target_labels": [0, 1]}, r"'target_labels' was given without 'target'"),
        ({"target": np.zeros((5, 2))}, r"'target' should have 3 columns like 'X', but has 2"),
        ({"target": np.zeros((5, 3)), "target_labels": [0, 1]}, r"should have one entry per row of 'target' \(5\)"),
        (
            {"target": np.zeros((2, 3)), "target_labels": [0, 7]},
            r"should hold the classes of 'y' \(0, 1\), but also holds 7",
        ),
    ],
)
def test_values(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        transfer_report(**{**GOOD, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": [["a", "b"]] * 40}, r"'X' should hold numbers, but holds text"),
        ({"X": GOOD["X"] + 1j}, r"'X' should hold real numbers, but holds complex128"),
        (
            {"X": sparse.csr_array(GOOD["X"])},
            r"'X' should be a dense array, but is a sparse matrix\. Use X.toarray\(\)",
        ),
        ({"y": ["a"] * 40, "loss": "squared_error"}, r"'y' should hold numbers"),
        ({"order": 2.0}, r"'order' should be an integer, but is 2.0"),
        ({"radius": "1"}, r"'radius' should be a number, but is '1'"),
        ({"level": "high"}, r"'level' should be a number"),
    ],
)
def test_types(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        transfer_report(**{**GOOD, **changes})


def test_moment_gaps_of_one_domain() -> None:
    with pytest.raises(ValueError, match="at least two domains, but all 40 rows are of 'a'"):
        moment_gaps(GOOD["X"], ["a"] * 40)


@pytest.mark.parametrize("kind", [list, tuple])
def test_numbers_and_strings_in_a_list_are_different_labels(kind: type) -> None:
    values = [2, "2", 10, "b", 2]
    distinct, index = index_labels(as_labels("domains", kind(values), 5, "X"))
    assert distinct == [10, 2, "2", "b"]  # by type, then by text, where labels do not compare
    assert [distinct[k] for k in index.tolist()] == values


@pytest.mark.parametrize("convert", [np.array, torch.tensor, list])
def test_labels_that_compare_are_in_their_own_order(convert: Any) -> None:
    distinct, index = index_labels(as_labels("y", convert([10, 9, 10, -1]), 4, "X"))
    assert distinct == [-1, 9, 10]
    assert index.tolist() == [2, 1, 2, 0]
    assert index_known_labels("target_labels", np.array([9, -1]), distinct).tolist() == [1, 0]


def test_numbers_become_double_precision() -> None:
    X = as_features("X", torch.ones(2, 3, requires_grad=True), columns=3)
    assert X.dtype == torch.float64
    assert as_outcomes("y", [1, 2], 2, "X").shape == (2, 1)
    assert as_outcomes("y", np.ones((2, 3)), 2, "X", columns=3).shape == (2, 3)
    with pytest.raises(ValueError, match=r"should have 2 columns like 'y', but has 3"):
        as_outcomes("target_labels", np.ones((2, 3)), 2, "target", columns=2)
    with pytest.raises(ValueError, match=r"should have shape \(2,\) or \(2, C\), but has shape \(2, 1, 1\)"):
        as_outcomes("y", np.ones((2, 1, 1)), 2, "X")
    with pytest.raises(ValueError, match=r"first in row 0\."):
        as_features("X", np.array([[np.nan, 1.0], [1.0, np.inf]]))
