r"""The Gram route: derivatives of order r meet only in their inner products, and those are numbers.

.. math:: \langle D_r(i), D_r(j) \rangle = \langle \kappa_r(i), \kappa_r(j) \rangle\,(x_i\cdot x_j)^r

A batch of n samples costs O(n²(d + C)). Large batches are cut into tiles (`_tiles.py`).
"""

from collections.abc import Collection, Sequence

from torch import Tensor

from momentalign.closed_form._domains import number_of_domains, pair_weights, shares
from momentalign.closed_form._heads import Residuals
from momentalign.closed_form._self_product import self_product
from momentalign.closed_form._tiles import TILE, reduce_tiles


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
    same = others is residuals
    inner = self_product(features) if same else features @ other_features.T
    if bias:
        inner = inner + 1
    grams = residuals.grams(orders, others)
    return {order: gram * (inner if order == 1 else inner**order) for order, gram in grams.items()}


def gram_statistics(
    statistics: Sequence[str],
    orders: Sequence[int],
    residuals: Residuals,
    features: Tensor,
    domains: Tensor,
    bias: bool,
    tile: int = TILE,
) -> dict[str, list[Tensor]]:
    r"""Statistics of the derivatives over domains, without naming the domains.

    `"spread"` and `"norms"` are those of the domain Gram; `"energy"` is the domains' mean of the samples' squared
    norms, :math:`\frac1K \sum_e \frac1{n_e} \sum_{i \in e} \|D_r(i)\|^2`.

    Args:
        statistics: Names of the statistics.
        orders: Orders of the derivative.
        residuals: Of the n samples.
        features: Shape (n, d).
        domains: Any integers, shape (n,).
        bias: Whether the head has one.
        tile: Rows and columns of a tile.

    Returns:
        For each statistic a scalar an order.
    """
    u = shares(domains, features.dtype)
    number = number_of_domains(u)
    pairs = [name for name in statistics if name != "energy"]

    def reduction(rows: tuple[Tensor, ...], columns: tuple[Tensor, ...] | None) -> list[Tensor]:
        (x, e, v, *state), (other_x, other_e, other_v, *other_state) = rows, columns or rows
        block = residuals.of_rows(tuple(state))
        others = residuals.of_rows(tuple(other_state)) if columns else block
        grams = cross_grams(orders, block, x, others, other_x, bias)
        results = []
        for name in pairs:
            weights = pair_weights(name, e, v, other_e, other_v, number)
            results += [(grams[order] * weights).sum() for order in orders]
        if "energy" in statistics:
            results += [
                v.new_zeros(()) if columns else (grams[order].diagonal() * v).sum() / number for order in orders
            ]
        return results

    values = reduce_tiles(reduction, (features, domains, u, *residuals.state), tile)
    names = [*pairs, *(["energy"] if "energy" in statistics else [])]
    return {name: values[k * len(orders) : (k + 1) * len(orders)] for k, name in enumerate(names)}


def domain_grams(
    orders: Sequence[int], residuals: Residuals, features: Tensor, weights: Tensor, bias: bool, tile: int = TILE
) -> list[Tensor]:
    """Inner products of the domains' derivatives, (K, K) for each order; `weights` (n, K) average the domains."""

    def reduction(rows: tuple[Tensor, ...], columns: tuple[Tensor, ...] | None) -> list[Tensor]:
        (x, E, *state), (other_x, other_E, *other_state) = rows, columns or rows
        block = residuals.of_rows(tuple(state))
        others = residuals.of_rows(tuple(other_state)) if columns else block
        grams = cross_grams(orders, block, x, others, other_x, bias)
        return [E.T @ grams[order] @ other_E for order in orders]

    return reduce_tiles(reduction, (features, weights, *residuals.state), tile)
