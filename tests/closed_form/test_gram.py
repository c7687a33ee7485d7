from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from momentalign.closed_form import (
    HEADS,
    cross_grams,
    domain_grams,
    domain_labels,
    domain_weights,
    gram_spreads,
    sample_grams,
)
from tests.references import LOSSES, ORDERS, ReferenceBatch, assert_equal, make_batch

pytestmark = pytest.mark.slow

TILES = [5, 7, 8, 20]  # of 21 samples: the last tile has 1, 7, 5 and 1

Function = Callable[..., Tensor]
"""Of features and logits, and of the size of a tile where given."""


def statistics(batch: ReferenceBatch) -> Function:
    def function(features: Tensor, logits: Tensor, **tile: int) -> Tensor:
        residuals = HEADS[batch.loss](logits, batch.targets)
        orders, options = ORDERS[batch.loss], {"with_energies": True, **tile}
        spreads, energies = gram_spreads(orders, residuals, features, batch.domains, batch.bias, **options)
        return torch.stack([*spreads, *energies])

    return function


def grams(batch: ReferenceBatch) -> Function:
    weights = domain_weights(batch.domains, domain_labels(batch.domains, None), torch.float64)

    def function(features: Tensor, logits: Tensor, **tile: int) -> Tensor:
        residuals = HEADS[batch.loss](logits, batch.targets)
        return torch.stack(domain_grams(ORDERS[batch.loss], residuals, features, weights, batch.bias, **tile))

    return function


def derivatives(batch: ReferenceBatch, function: Function, **tile: int) -> list[Tensor]:
    """Value, gradients of a weighted sum of it, and gradients of the squared length of those."""
    features, logits = (tensor.clone().requires_grad_() for tensor in (batch.features, batch.logits))
    value = function(features, logits, **tile)
    weights = torch.arange(1.0, 1 + value.numel(), dtype=value.dtype).reshape(value.shape)
    total = (weights * value).sum()
    first = torch.autograd.grad(total, (features, logits), retain_graph=True)
    with_graph = torch.autograd.grad(total, (features, logits), create_graph=True)
    for gradient, again in zip(first, with_graph, strict=True):
        assert_equal(again, gradient, 1e-12)
    second = torch.autograd.grad(sum(gradient.square().sum() for gradient in with_graph), (features, logits))
    return [value.detach(), *first, *second]


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", [statistics, grams])
def test_tiles_change_nothing(kind: Callable[[ReferenceBatch], Function], loss: str, tile: int) -> None:
    batch = make_batch(loss, bias=kind is grams)
    function = kind(batch)
    tiled, whole = derivatives(batch, function, tile=tile), derivatives(batch, function)
    for found, expected in zip(tiled, whole, strict=True):
        assert_equal(found, expected, 1e-12)


@pytest.mark.parametrize("tile", [21, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_second_derivatives(loss: str, tile: int) -> None:
    batch = make_batch(loss)
    features, logits = (tensor[:4].clone().requires_grad_() for tensor in (batch.features, batch.logits))
    few = ReferenceBatch(loss, True, features, batch.head, logits, batch.targets[:4], batch.domains[:4])
    function = statistics(few)
    assert torch.autograd.gradgradcheck(lambda x, z: function(x, z, tile=tile), (features, logits))


@pytest.mark.parametrize(("loss", "backend"), [("cross_entropy", "eager"), ("logistic", "aot_eager")])
def test_tiles_compile_to_one_graph(loss: str, backend: str) -> None:
    torch.compiler.reset()
    batch = make_batch(loss)
    function, results = statistics(batch), []
    for statistic in (function, torch.compile(function, fullgraph=True, backend=backend)):
        features, logits = (tensor.clone().requires_grad_() for tensor in (batch.features, batch.logits))
        value = statistic(features, logits, tile=12)
        results.append([value.detach(), *torch.autograd.grad(value.sum(), (features, logits))])
    for expected, found in zip(*results, strict=True):
        assert_equal(found, expected, 1e-12)


@pytest.mark.parametrize("needed", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("loss", LOSSES)
def test_cross_grams_are_blocks_of_the_whole(loss: str, needed: tuple[bool, bool]) -> None:
    batch = make_batch(loss)
    rows, columns = slice(6), slice(6, 21)

    def total(grams: dict[int, Tensor]) -> Tensor:
        weights = torch.arange(90.0, dtype=torch.float64).reshape(6, 15)
        return sum(((weights + order) * gram).sum() for order, gram in grams.items())

    features, logits = (tensor.clone().requires_grad_() for tensor in (batch.features, batch.logits))
    whole = sample_grams(ORDERS[loss], HEADS[loss](logits, batch.targets), features, True)
    expected = total({order: gram[rows, columns] for order, gram in whole.items()})
    gradients = torch.autograd.grad(expected, (features, logits))

    leaves = [
        tensor[part].clone().requires_grad_(need)
        for part, need in zip((rows, columns), needed, strict=True)
        for tensor in (batch.features, batch.logits)
    ]
    x, z, other_x, other_z = leaves
    residuals, others = HEADS[loss](z, batch.targets[rows]), HEADS[loss](other_z, batch.targets[columns])
    found = total(cross_grams(ORDERS[loss], residuals, x, others, other_x, True))
    assert_equal(found, expected, 1e-12)
    found.backward()
    for leaf, part, gradient in zip(leaves, (rows, rows, columns, columns), gradients * 2, strict=True):
        if leaf.requires_grad:
            assert_equal(leaf.grad, gradient[part], 1e-12)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("loss", LOSSES)
def test_tiles_where_only_features_or_only_logits_need_gradients(loss: str, which: int) -> None:
    batch = make_batch(loss)
    gradients = []
    for tile in (21, 5):
        leaves = [tensor.clone().requires_grad_(k == which) for k, tensor in enumerate(batch.inputs[:2])]
        statistics(batch)(*leaves, tile=tile).sum().backward()
        gradients.append(leaves[which].grad)
    assert_equal(*gradients, 1e-12)


def largest_saved(batch: ReferenceBatch, tile: int) -> int:
    """Numbers in the largest tensor that is kept for the backward pass."""
    sizes = []

    def pack(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    features, logits = (tensor.clone().requires_grad_() for tensor in (batch.features, batch.logits))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        statistics(batch)(features, logits, tile=tile)
    return max(sizes)


def test_backward_keeps_no_tile() -> None:
    batch = make_batch("cross_entropy", 60)
    assert largest_saved(batch, tile=60) >= 60 * 60
    assert largest_saved(batch, tile=20) < 20 * 20
