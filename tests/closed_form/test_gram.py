from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from momentalign.closed_form import (
    HEADS,
    cross_grams,
    domain_grams,
    gram_statistics,
    index_domains,
    norms,
    sample_grams,
    spread,
)
from tests.references import CASES_AND_ORDERS, LOSSES, ORDERS, Case, ReferenceBatch, assert_equal, make_batch, solved

TILES = [5, 7, 8, 20]  # of 21 samples: the last tile has 1, 7, 5 and 1
STATISTICS = ("spread", "norms", "energy")


def values_and_gradients(batch: ReferenceBatch, function: Callable[[Tensor, Tensor], list[Tensor]]) -> list[Tensor]:
    """Results of a function of features and logits, then the gradients of their sum with unequal weights."""
    features, logits = (tensor.clone().requires_grad_() for tensor in (batch.features, batch.logits))
    values = torch.stack(function(features, logits))
    weights = torch.arange(1.0, 1 + values.numel(), dtype=values.dtype).reshape(values.shape)
    gradients = torch.autograd.grad((weights * values).sum(), (features, logits))
    return [values.detach(), *gradients]


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("loss", LOSSES)
def test_tiles_do_not_change_statistics(loss: str, tile: int) -> None:
    batch = make_batch(loss)

    def function(features: Tensor, logits: Tensor, **tiles: int) -> list[Tensor]:
        return gram_statistics(
            STATISTICS, ORDERS[loss], HEADS[loss], features, logits, batch.targets, batch.domains, True, **tiles
        )

    tiled = values_and_gradients(batch, lambda x, z: function(x, z, tile=tile))
    for found, expected in zip(tiled, values_and_gradients(batch, function), strict=True):
        assert_equal(found, expected, 1e-12)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("loss", LOSSES)
def test_tiles_do_not_change_domain_grams(loss: str, tile: int) -> None:
    batch = make_batch(loss)
    _, weights = index_domains(batch.domains, None, torch.float64)

    def function(features: Tensor, logits: Tensor, **tiles: int) -> list[Tensor]:
        return domain_grams(ORDERS[loss], HEADS[loss], features, logits, batch.targets, weights, False, **tiles)

    tiled = values_and_gradients(batch, lambda x, z: function(x, z, tile=tile))
    for found, expected in zip(tiled, values_and_gradients(batch, function), strict=True):
        assert_equal(found, expected, 1e-12)


@pytest.mark.parametrize(("case", "order"), CASES_AND_ORDERS, ids=str)
def test_statistics_need_no_list_of_domains(case: Case, order: int) -> None:
    batch, dense = solved(case, order)
    (found,) = gram_statistics(STATISTICS, [order], HEADS[case.loss], *batch.inputs, case.bias)
    assert_equal(found[0], spread(dense @ dense.T))
    assert_equal(found[1], norms(dense @ dense.T))
    gram = sample_grams([order], HEADS[case.loss], *batch.inputs[:3], case.bias)[order]
    labels = batch.domains.unique()
    energies = torch.stack([gram.diagonal()[batch.domains == label].mean() for label in labels])
    assert_equal(found[2], energies.mean())


@pytest.mark.parametrize("loss", LOSSES)
def test_cross_grams_are_blocks_of_the_whole(loss: str) -> None:
    batch = make_batch(loss)
    whole = sample_grams(ORDERS[loss], HEADS[loss], batch.features, batch.logits, batch.targets, True)
    rows, columns = (
        (batch.features[part], HEADS[loss](batch.logits[part], batch.targets[part]))
        for part in (slice(0, 6), slice(6, 21))
    )
    blocks = cross_grams(ORDERS[loss], rows, columns, True)
    for order in ORDERS[loss]:
        assert_equal(blocks[order], whole[order][:6, 6:], 1e-12)


def largest_saved(batch: ReferenceBatch, tile: int) -> int:
    """Numbers in the largest tensor that the backward pass finds kept for it."""
    sizes = []

    def pack(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    features, logits = (tensor.clone().requires_grad_() for tensor in (batch.features, batch.logits))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        gram_statistics(
            ["spread"], [1, 2, 3], HEADS[batch.loss], features, logits, batch.targets, batch.domains, True, tile
        )
    return max(sizes, default=0)


def test_backward_keeps_no_tile() -> None:
    batch = make_batch("cross_entropy", 60)
    assert largest_saved(batch, tile=60) >= 60 * 60
    assert largest_saved(batch, tile=20) < 20 * 20


def test_one_tile_is_plain_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **keywords: object) -> None:
        raise AssertionError("a small batch should not be recomputed")

    monkeypatch.setattr("momentalign.closed_form._gram.checkpoint", refuse)
    batch = make_batch("cross_entropy")
    gram_statistics(["spread"], [1, 2], HEADS["cross_entropy"], *batch.inputs, True, tile=21)
    with pytest.raises(AssertionError, match="recomputed"):
        gram_statistics(["spread"], [1, 2], HEADS["cross_entropy"], *batch.inputs, True, tile=20)
