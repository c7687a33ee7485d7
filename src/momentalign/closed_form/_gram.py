r"""The Gram route: derivatives of order r meet only in their inner products, and those are numbers.

.. math:: \langle D_r(i), D_r(j) \rangle = \langle \kappa_r(i), \kappa_r(j) \rangle\,(x_i\cdot x_j)^r

A batch of n samples costs O(n²(d + C)). Large batches are cut into tiles on and above the diagonal, a tile above it
standing for its mirror image as well; each is recomputed in backward, so that memory grows as the rows plus one tile.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from momentalign.closed_form._domains import number_of_domains, pair_weights, shares
from momentalign.closed_form._heads import Residuals

TILE = 2048
"""Rows and columns of a tile."""

_Block = tuple[Tensor, ...]
_Columns = _Block | None
_Reduction = Callable[[_Block, _Columns], list[Tensor]]
"""Takes the rows and the columns of a tile to numbers or matrices; None for columns: the rows with themselves."""


def sample_grams(orders: Collection[int], residuals: Residuals, features: Tensor, bias: bool) -> dict[int, Tensor]:
    """Inner products of the samples' derivatives, shape (n, n) for each order."""
    return cross_grams(orders, residuals, features, residuals, features, bias)


def cross_grams(
    orders: Collection[int],
    residuals: Residuals,
    features: Tensor,
    others: Residuals,
    other_features: Tensor,
    bias: bool,
) -> dict[int, Tensor]:
    """Inner products between the derivatives of two sets of samples, shape (n, m) for each order."""
    inner = features @ other_features.T
    if bias:
        inner = inner + 1
    grams = residuals.grams(orders, others)
    return {order: gram * (inner if order == 1 else inner**order) for order, gram in grams.items()}


def gram_spreads(
    orders: Sequence[int],
    residuals: Residuals,
    features: Tensor,
    domains: Tensor,
    bias: bool,
    *,
    with_energies: bool = False,
    tile: int = TILE,
) -> tuple[list[Tensor], list[Tensor]]:
    r"""Spread of the domains' derivatives for each order, without a list of the domains; and energies if requested.

    An energy is the domains' mean of the samples' squared norms,
    :math:`\frac1K \sum_e \frac1{n_e} \sum_{i \in e} \|D_r(i)\|^2`.
    """
    u = shares(domains, features.dtype)
    number = number_of_domains(u)

    def reduction(rows: _Block, columns: _Columns) -> list[Tensor]:
        (x, e, v, *state), (other_x, other_e, other_v, *other_state) = rows, columns or rows
        block = residuals.of_rows(tuple(state))
        others = residuals.of_rows(tuple(other_state)) if columns else block
        grams = cross_grams(orders, block, x, others, other_x, bias)
        weights = pair_weights(e, v, other_e, other_v, number)
        results = [(grams[order] * weights).sum() for order in orders]
        if with_energies:
            results += [v.new_zeros(()) if columns else grams[order].diagonal() @ v / number for order in orders]
        return results

    values = _reduce_tiles(reduction, (features, domains, u, *residuals.state), tile)
    values = [value.relu() for value in values]  # all are squares: what is below zero is rounding
    return values[: len(orders)], values[len(orders) :]


def domain_grams(
    orders: Sequence[int], residuals: Residuals, features: Tensor, weights: Tensor, bias: bool, tile: int = TILE
) -> list[Tensor]:
    """Inner products of the domains' derivatives, (K, K) for each order; `weights` (n, K) average the domains."""

    def reduction(rows: _Block, columns: _Columns) -> list[Tensor]:
        (x, E, *state), (other_x, other_E, *other_state) = rows, columns or rows
        block = residuals.of_rows(tuple(state))
        others = residuals.of_rows(tuple(other_state)) if columns else block
        grams = cross_grams(orders, block, x, others, other_x, bias)
        return [E.T @ grams[order] @ other_E for order in orders]

    return _reduce_tiles(reduction, (features, weights, *residuals.state), tile)


def _reduce_tiles(reduction: _Reduction, tensors: _Block, tile: int) -> list[Tensor]:
    """Sum a reduction over all pairs of rows of `tensors`, each of shape (n, ...)."""
    if len(tensors[0]) <= tile:  # plain operations: nothing is computed twice, and it compiles and captures
        return reduction(tensors, None)
    parts = [
        checkpoint(_with_mirror, reduction, *pair, use_reentrant=False, preserve_rng_state=False)
        for pair in _tile_pairs(tensors, tile)
    ]
    return [torch.stack(results).sum(0) for results in zip(*parts, strict=True)]


def _tile_pairs(tensors: _Block, tile: int) -> Iterator[tuple[_Block, _Columns]]:
    blocks = list(zip(*(tensor.split(tile) for tensor in tensors), strict=True))
    for i, rows in enumerate(blocks):
        yield rows, None
        for columns in blocks[i + 1 :]:
            yield rows, columns


def _with_mirror(reduction: _Reduction, rows: _Block, columns: _Columns) -> list[Tensor]:
    results = reduction(rows, columns)
    return [result + result.t() for result in results] if columns else results
