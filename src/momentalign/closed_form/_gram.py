r"""The Gram route: derivatives of order r meet only in their inner products, and those are numbers.

.. math:: \langle D_r(i), D_r(j) \rangle = \langle \kappa_r(i), \kappa_r(j) \rangle\,(x_i\cdot x_j)^r

A batch of n samples costs O(n²(d + C)). It is cut into square tiles above the diagonal; what a tile needs is
recomputed in backward, so memory grows as n(d + C) plus one tile. A small batch is one tile of plain
operations: nothing is recomputed, and it compiles and captures.
"""

from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from momentalign.closed_form._domains import number_of_domains, pair_weights, shares
from momentalign.closed_form._heads import Residuals

Head = Callable[[Tensor, Tensor], Residuals]
"""Makes the residuals of a block from its logits (n, C) and targets."""

Reduction = Callable[[Tensor, tuple[Tensor, ...], tuple[Tensor, ...]], Tensor]
"""Takes a tile of the sample Gram and the keys of its rows and of its columns to a number or to a matrix."""

TILE = 2048


def sample_grams(
    orders: Collection[int], head: Head, features: Tensor, logits: Tensor, targets: Tensor, bias: bool
) -> dict[int, Tensor]:
    """Inner products of the samples' derivatives, shape (n, n) for each order."""
    block = (features, head(logits, targets))
    return cross_grams(orders, block, block, bias)


def cross_grams(
    orders: Collection[int],
    rows: tuple[Tensor, Residuals],
    columns: tuple[Tensor, Residuals],
    bias: bool,
) -> dict[int, Tensor]:
    """Inner products between the derivatives of two sets of samples, shape (n, m) for each order."""
    inner = rows[0] @ columns[0].T
    if bias:
        inner = inner + 1
    grams = rows[1].grams(orders, columns[1])
    return {order: gram * (inner if order == 1 else inner**order) for order, gram in grams.items()}


def reduced_grams(
    orders: Sequence[int],
    head: Head,
    features: Tensor,
    logits: Tensor,
    targets: Tensor,
    keys: tuple[Tensor, ...],
    reduction: Reduction,
    bias: bool,
    tile: int = TILE,
) -> list[Tensor]:
    """Reduce the sample Gram of each order, tile by tile.

    Args:
        orders: Orders of the derivative.
        head: The loss.
        features: Shape (n, d).
        logits: Shape (n, C).
        targets: As the loss takes them.
        keys: What the reduction has to know of the rows, tensors of shape (n, ...).
        reduction: Its result for a tile is transposed (where it is a matrix) for the mirrored tile, and summed.
        bias: Whether the head has one.
        tile: Rows and columns of a tile.

    Returns:
        One result an order.
    """

    def diagonal(x: Tensor, z: Tensor, y: Tensor, *keys: Tensor) -> list[Tensor]:
        block = (x, head(z, y))
        grams = cross_grams(orders, block, block, bias)
        return [reduction(grams[order], keys, keys) for order in orders]

    def mirrored(rows: tuple[Tensor, ...], columns: tuple[Tensor, ...]) -> list[Tensor]:
        (x, z, y, *row_keys), (x_, z_, y_, *column_keys) = rows, columns
        grams = cross_grams(orders, (x, head(z, y)), (x_, head(z_, y_)), bias)
        results = [reduction(grams[order], tuple(row_keys), tuple(column_keys)) for order in orders]
        return [result + result.t() for result in results]

    if len(features) <= tile:
        return diagonal(features, logits, targets, *keys)
    blocks = list(zip(*(tensor.split(tile) for tensor in (features, logits, targets, *keys)), strict=True))
    parts = []
    for i, rows in enumerate(blocks):
        parts.append(checkpoint(diagonal, *rows, use_reentrant=False, preserve_rng_state=False))
        for columns in blocks[i + 1 :]:
            parts.append(checkpoint(mirrored, rows, columns, use_reentrant=False, preserve_rng_state=False))
    return [torch.stack(results).sum(0) for results in zip(*parts, strict=True)]


def gram_statistics(
    statistics: Sequence[str],
    orders: Sequence[int],
    head: Head,
    features: Tensor,
    logits: Tensor,
    targets: Tensor,
    domains: Tensor,
    bias: bool,
    tile: int = TILE,
) -> list[Tensor]:
    r"""Statistics of the derivatives over domains, without naming the domains.

    `"spread"` and `"norms"` are those of the domain Gram; `"energy"` is the domains' mean of the samples' squared norms,
    :math:`\frac1K \sum_e \frac1{n_e} \sum_{i \in e} \|D_r(i)\|^2`.

    Args:
        statistics: Names of the statistics.
        orders: Orders of the derivative.
        head: The loss.
        features: Shape (n, d).
        logits: Shape (n, C).
        targets: As the loss takes them.
        domains: Any integers, shape (n,).
        bias: Whether the head has one.
        tile: Rows and columns of a tile.

    Returns:
        A vector over the statistics for each order.
    """
    u = shares(domains, features.dtype)
    number = number_of_domains(u)

    def reduction(gram: Tensor, rows: tuple[Tensor, ...], columns: tuple[Tensor, ...]) -> Tensor:
        (row_domains, row_u), (column_domains, column_u) = rows, columns
        values = []
        for statistic in statistics:
            if statistic != "energy":
                weights = pair_weights(statistic, row_domains, row_u, column_domains, column_u, number)
                values.append((gram * weights).sum())
            elif rows is columns:
                values.append(gram.diagonal() @ row_u / number)
            else:
                values.append(gram.new_zeros(()))
        return torch.stack(values)

    return reduced_grams(orders, head, features, logits, targets, (domains, u), reduction, bias, tile)


def domain_grams(
    orders: Sequence[int],
    head: Head,
    features: Tensor,
    logits: Tensor,
    targets: Tensor,
    weights: Tensor,
    bias: bool,
    tile: int = TILE,
) -> list[Tensor]:
    """Inner products of the domains' derivatives, (K, K) for each order; `weights` (n, K) average the domains."""

    def reduction(gram: Tensor, rows: tuple[Tensor, ...], columns: tuple[Tensor, ...]) -> Tensor:
        return rows[0].T @ gram @ columns[0]

    return reduced_grams(orders, head, features, logits, targets, (weights,), reduction, bias, tile)
