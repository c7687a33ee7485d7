"""Bad input is an error in words before any work."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from momentalign.theory import DomainLosses, moment_gaps, transfer_report

RNG = np.random.default_rng(0)
X, Y, SITE = RNG.normal(size=(40, 3)), np.arange(40) % 2, np.repeat(["a", "b"], 20)
BROKEN = X.copy()
BROKEN[7] = np.nan


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"domains": ["a"] * 40}, "'domains'"),
        ({"domains": ["a"] * 39}, "'domains'"),
        ({"domains": ["a"] * 39 + [None]}, "'domains'.* row 39"),
        ({"domains": [["a"]] * 40}, "'domains'"),
        ({"X": BROKEN}, "X contains NaN"),
        ({"X": X[:0]}, "0 sample"),
        ({"X": X[:, 0]}, "2D array"),
        ({"X": X + 1j}, "[Cc]omplex"),
        ({"X": [["a", "b"]] * 40}, "'a'"),
        ({"y": Y[:39]}, "'y'"),
        ({"y": BROKEN[:, 0]}, "'y'.* row 7"),
        ({"y": np.zeros(40, int)}, "'y' .*two classes"),
        ({"y": RNG.normal(size=40)}, "'y' .*'squared_error'"),
        ({"y": np.arange(40) % 3, "loss": "logistic"}, "'y' .*'logistic'"),
        ({"y": BROKEN[:, 0], "loss": "squared_error"}, "y contains NaN"),
        ({"y": np.zeros((40, 1, 1)), "loss": "squared_error"}, "dim 3"),
        ({"loss": "cross-entropy"}, "'loss' .*'cross_entropy'"),
        ({"radius": 0}, "'radius'"),
        ({"radius": float("nan")}, "'radius'"),
        ({"l2": 0.0}, "'l2'"),
        ({"order": 0}, "'order'"),
        ({"order": 5}, "'order'"),
        ({"target_labels": [0, 1]}, "'target_labels' .*'target'"),
        ({"target": np.zeros((5, 2))}, "'target' .*3 columns"),
        ({"target": np.zeros((5, 3)), "target_labels": [0, 1]}, "'target_labels'"),
        ({"target": np.zeros((2, 3)), "target_labels": [0, 7]}, "7"),
        ({"loss": "squared_error", "target": X, "target_labels": np.zeros((40, 2))}, "'target_labels'"),
    ],
)
def test_values(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        transfer_report(**{"X": X, "y": Y, "domains": SITE, **changes})


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"X": sparse.csr_array(X)}, "[Ss]parse"), ({"order": 2.0}, "'order'"), ({"radius": "1"}, "'radius'")],
)
def test_types(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(TypeError, match=named):
        transfer_report(**{"X": X, "y": Y, "domains": SITE, **changes})


def test_moment_gaps_of_one_domain() -> None:
    with pytest.raises(ValueError, match="'domains'"):
        moment_gaps(X, ["a"] * 40)


@pytest.mark.parametrize("convert", [np.array, torch.tensor, list])
def test_labels_are_in_their_own_order(convert: Any) -> None:
    losses = DomainLosses(X[:4], convert([10, 9, 10, -1]), ["", "a", "", "b"])
    assert losses.classes == (-1, 9, 10)
    assert losses.targets.tolist() == [2, 1, 2, 0]
    assert losses.names == ("", "a", "b")
    assert losses.encode(X[:2], convert([9, -1]))[1].tolist() == [1, 0]
