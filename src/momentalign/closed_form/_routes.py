"""The pairwise route of the published method, and the choice of the cheapest route."""

from collections.abc import Collection

import torch
from torch import Tensor

from momentalign.closed_form._direct import DIRECT_LIMIT, ROWS_ENTRIES, direct_size, with_constant
from momentalign.closed_form._gram import TILE
from momentalign.closed_form._heads import Residuals
from momentalign.closed_form._softmax import SoftmaxResiduals

_ENTRIES = 2**24

_PASSES = 5
"""Multiply-adds that cost as much as moving one number through memory."""

_NUMBERS = 2 * DIRECT_LIMIT
"""Numbers that the faster route may keep for backward, 2 GiB in float32; beyond, the smaller one is taken."""

_TILE_MATRICES = 16
"""Matrices of the size of a tile that the Gram route keeps at once."""


def pairwise_grams(orders: Collection[int], residuals: Residuals, features: Tensor, bias: bool) -> dict[int, Tensor]:
    """Sample Grams of orders 1 and 2, shape (n, n), by traces for every pair of samples from C x C and d x d matrices.

    The published memory-saving route, for comparison: `auto` never chooses it.
    """
    X = with_constant(features, bias)
    grams = {}
    if 1 in orders:
        grams[1] = (residuals.gradient @ residuals.gradient.T) * (X @ X.T)
    if 2 in orders:
        A = _second_residuals(residuals)
        step = max(1, _ENTRIES // max(A.shape[1], X.shape[1]) ** 2)
        blocks = list(zip(A.split(step), X.split(step), strict=True))
        rows = [torch.cat([_traces(a, b) * _traces(_outer(x), _outer(z)) for b, z in blocks], 1) for a, x in blocks]
        grams[2] = torch.cat(rows)
    return grams


def _second_residuals(residuals: Residuals) -> Tensor:
    """The matrices A, shape (n, C, C)."""
    like = residuals.gradient
    identity = torch.eye(like.shape[1], dtype=like.dtype, device=like.device)
    return torch.stack([residuals.hessian_times(row.expand_as(like)) for row in identity], 1)


def _outer(X: Tensor) -> Tensor:
    return X[:, :, None] * X[:, None, :]


def _traces(left: Tensor, right: Tensor) -> Tensor:
    return torch.einsum("iab,jba->ij", left, right)


def _gram_cost(orders: Collection[int], residuals: type[Residuals], n: int, d: int, C: int, past: int) -> float:
    """Multiply-adds and numbers moved by the Gram route, forward."""
    products = 1 if 1 in orders else 0
    if residuals is SoftmaxResiduals:
        products += 3 * (max(orders) > 1) + 3 * (max(orders) > 2) + 4 * (max(orders) > 3)
    return float(n) * (n + past) * (d + products * C + 4 * _PASSES)


def _direct_cost(orders: Collection[int], residuals: type[Residuals], n: int, d: int, C: int, K: int) -> float | None:
    """Multiply-adds and numbers moved by the direct route, forward; None where it cannot serve one of the orders."""
    cost = 0.0
    for order in orders:
        size = direct_size(order, residuals, d, C)
        if size is None or size > DIRECT_LIMIT:
            return None
        # Each domain passes over all rows; the factor before its last product holds 1/d of the numbers per row.
        cost += K * size * (n * (1 + _PASSES / d) + K + _PASSES)
    return cost


def _direct_numbers(orders: Collection[int], residuals: type[Residuals], n: int, d: int, C: int, K: int) -> float:
    """Numbers that the direct route keeps for backward.

    For each domain its derivative and the factor before the last product, which is recomputed where it is large.
    """
    total = 0.0
    for order in orders:
        size = direct_size(order, residuals, d, C) or 0
        factor = n * size / d
        total += K * (size + (factor if factor <= ROWS_ENTRIES else 0))
    return total


def _gram_numbers(n: int) -> float:
    """Numbers that the Gram route keeps for backward."""
    return _TILE_MATRICES * float(min(n, TILE)) ** 2


def cheapest_route(
    orders: Collection[int],
    residuals: type[Residuals],
    *,
    samples: int,
    dimension: int,
    classes: int,
    num_domains: int | None = None,
    past: int = 0,
) -> str:
    """`"gram"` or `"direct"`: the one with fewer multiply-adds that can compute all orders in a bounded memory.

    `dimension` counts the bias; `past` are samples of past batches that the Gram route would pair with the batch. Where
    `num_domains` is not known two are assumed: a lower bound of what the direct route costs.
    """
    shape = samples, dimension, classes, num_domains or 2
    direct = _direct_cost(orders, residuals, *shape)
    if direct is None or _gram_cost(orders, residuals, samples, dimension, classes, past) <= direct:
        return "gram"
    fits = _direct_numbers(orders, residuals, *shape) <= max(_NUMBERS, _gram_numbers(samples))
    return "direct" if fits else "gram"
