from types import SimpleNamespace

import pytest
import torch

from momentalign import _triton
from momentalign.closed_form import (
    _coral_distances,
    _decayed_spreads,
    _product_spreads,
    _softmax_spreads,
    _variance_spread,
)


class Rows(SimpleNamespace):
    """As much of a tensor on a GPU as is looked at."""

    def __len__(self) -> int:
        return self.shape[0]


def rows(*shape: int, dtype: torch.dtype = torch.float32) -> Rows:
    return Rows(is_cuda=True, dtype=dtype, shape=shape)


@pytest.fixture
def triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_triton, "AVAILABLE", True)


@pytest.mark.usefixtures("triton")
def test_a_mini_batch_in_float32_on_cuda_goes_to_the_kernels() -> None:
    X, Z, labels = rows(128, 384), rows(128, 7), rows(3)
    assert _softmax_spreads._can_fuse(X, Z)
    assert _product_spreads._can_fuse(X, Z)
    assert _coral_distances._can_fuse(X)
    assert _variance_spread._can_fuse(Z, X, labels, None)
    assert _variance_spread._can_fuse(Z, X, labels, rows(3, 7 * 385))


@pytest.mark.usefixtures("triton")
def test_what_the_kernels_are_not_made_for_does_not() -> None:
    X, labels = rows(128, 384), rows(3)
    assert not _softmax_spreads._can_fuse(X, rows(128, 65))
    assert not _softmax_spreads._can_fuse(rows(600, 384), rows(600, 7))
    assert not _softmax_spreads._can_fuse(X, rows(128, 7, dtype=torch.float64))
    assert not _product_spreads._can_fuse(X, rows(128, 65))
    assert not _coral_distances._can_fuse(rows(600, 384))
    assert not _coral_distances._can_fuse(rows(128, 384, dtype=torch.float64))
    assert not _variance_spread._can_fuse(rows(128, 65), X, labels, None)
    assert not _variance_spread._can_fuse(rows(128, 7), X, labels, rows(3, 7 * 385, dtype=torch.float64))


@pytest.mark.usefixtures("triton")
def test_on_the_host_nothing_does_even_with_triton() -> None:
    X, Z, labels = torch.zeros(128, 384), torch.zeros(128, 7), torch.arange(3)
    assert not _triton.can_use(X)
    assert not _softmax_spreads._can_fuse(X, Z)
    assert not _product_spreads._can_fuse(X, Z)
    assert not _coral_distances._can_fuse(X)
    assert not _variance_spread._can_fuse(Z, X, labels, None)
    assert not _decayed_spreads._can_fuse(X, Z, labels, True)


def test_without_triton_nothing_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_triton, "AVAILABLE", False)
    assert not _triton.can_use(rows(2))


@pytest.mark.usefixtures("triton")
def test_a_compiler_makes_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _triton.can_use(rows(2))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not _triton.can_use(rows(2))
