import dataclasses

import pytest
import torch

from momentalign.data import DomainDataset, Split

ROWS = Split(torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 0]))
DATA = DomainDataset("sites", 2, {"Zurich": {"in": ROWS, "out": ROWS}, "Budapest": {"in": ROWS}})


def test_rows_may_repeat() -> None:
    drawn = ROWS.rows(torch.tensor([2, 2, 0, 1]))
    assert drawn.inputs[:, 0].tolist() == [4.0, 4.0, 0.0, 2.0]
    assert drawn.targets.tolist() == [0, 0, 0, 1]


def test_names_keep_their_order() -> None:
    assert DATA.names == ("Zurich", "Budapest")


def test_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DATA.name = "other"  # type: ignore[misc]


def test_repr_counts_rows() -> None:
    assert repr(DATA) == "DomainDataset('sites', 2 classes; Zurich: 3 in + 3 out, Budapest: 3 in)"


def test_unknown_domain_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"sites has no domain 'Basel'\. Domains found: Zurich, Budapest\."):
        DATA.split("Basel", "in")


def test_unknown_split_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"Domain 'Budapest' of sites has no split 'out'\. Splits found: in\."):
        DATA.split("Budapest", "out")


def test_split_rejects_unequal_lengths() -> None:
    with pytest.raises(ValueError, match=r"one entry per row of 'inputs' \(3\), but has 2"):
        Split(torch.zeros(3, 1), torch.zeros(2))
