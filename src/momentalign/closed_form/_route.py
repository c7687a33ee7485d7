"""Which route is cheapest for n samples, d features (the bias counted), C classes and K domains."""

from collections.abc import Collection

from momentalign.closed_form._direct import LARGEST, direct_size
from momentalign.closed_form._heads import Residuals
from momentalign.closed_form._softmax import SoftmaxResiduals

_PASSES = 5
"""Multiply-adds that one number moved through memory is worth."""


def gram_cost(orders: Collection[int], residuals: type[Residuals], n: int, d: int, C: int, past: int) -> float:
    """Multiply-adds and numbers moved by the Gram route, forward."""
    products = 1 if 1 in orders else 0
    if residuals is SoftmaxResiduals:
        products += (3 if max(orders) > 1 else 0) + (3 if 3 in orders else 0)
    return float(n) * (n + past) * (d + products * C + 4 * _PASSES)


def direct_cost(orders: Collection[int], residuals: type[Residuals], n: int, d: int, C: int, K: int) -> float | None:
    """Multiply-adds and numbers moved by the direct route, forward; None where it cannot serve one of the orders."""
    cost = 0.0
    for order in orders:
        size = direct_size(order, residuals, d, C)
        if size is None or size > LARGEST:
            return None
        # Each domain passes over all rows; the factor before its last product holds 1/d of the numbers per row.
        cost += K * size * (n * (1 + _PASSES / d) + K + _PASSES)
    return cost


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
    """Choose between `"gram"` and `"direct"`.

    Args:
        orders: Orders of the derivative.
        residuals: The loss.
        samples: n.
        dimension: d, the bias counted.
        classes: C.
        num_domains: K; where it is not known two is a good enough guess, so that nothing has to be read.
        past: Samples of past batches that the Gram route would have to meet as well.

    Returns:
        The route with fewer multiply-adds among those that can serve all orders.
    """
    direct = direct_cost(orders, residuals, samples, dimension, classes, num_domains or 2)
    gram = gram_cost(orders, residuals, samples, dimension, classes, past)
    return "gram" if direct is None or gram <= direct else "direct"
