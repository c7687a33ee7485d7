"""Domain Grams and their spreads from a checked batch, by the requested or the cheapest route."""

from collections.abc import Sequence
from functools import partial

from torch import Tensor

from momentalign import closed_form
from momentalign._batch import HeadBatch, can_read_values
from momentalign.closed_form import HEADS

ROUTES = ("auto", "gram", "direct", "pairwise")

_FEW = 2048
"""Rows up to which a device synchronisation costs more than the cheaper route saves."""


def resolve_route(
    route: str,
    orders: Sequence[int],
    batch: HeadBatch,
    *,
    loss: str,
    bias: bool,
    num_domains: int | None = None,
    past: int = 0,
) -> str:
    """Choose a route for `"auto"`, from the sizes alone, and reject a route that cannot compute the orders.

    `past` is the number of rows of past batches that the Gram route would have to be crossed with.
    """
    (samples, width), classes = batch.features.shape, batch.logits.shape[1]
    dimension = width + bias
    if route == "auto":
        # The direct route would have to read the domains back; a memory of past batches has done so already.
        if num_domains is None and not past and (samples <= _FEW or not can_read_values(batch.features)):
            return "gram"
        cheapest = partial(
            closed_form.cheapest_route,
            orders,
            HEADS[loss],
            samples=samples,
            dimension=dimension,
            classes=classes,
            past=past,
        )
        chosen = cheapest(num_domains=num_domains)
        if chosen == "direct" and num_domains is None:  # which has to read the domains back anyway
            return cheapest(num_domains=len(batch.domains.unique()))
        return chosen
    if route == "pairwise" and max(orders) > 2:
        raise ValueError(f"Route 'pairwise' takes orders 1 and 2, but got {max(orders)}. Use route='gram'.")
    if route != "direct":
        return route
    for order in orders:
        size = closed_form.direct_size(order, HEADS[loss], dimension, classes)
        if size is None:
            raise ValueError(
                f"Route 'direct' takes orders 1 and 2 of loss '{loss}', but got {order}. Use route='gram'."
            )
        if size > closed_form.DIRECT_LIMIT:
            raise ValueError(
                f"Route 'direct' would build {size:.2g} numbers for each domain (order {order}, d = {dimension}, "
                f"C = {classes}), more than {closed_form.DIRECT_LIMIT:.2g}. Use route='gram'."
            )
    return route


def grams_by_route(
    route: str, orders: Sequence[int], batch: HeadBatch, weights: Tensor, *, loss: str, bias: bool
) -> list[Tensor]:
    """Inner products of the domains' derivatives, (K, K) for each order; `weights` (n, K) average each domain."""
    residuals = HEADS[loss](batch.logits, batch.targets)
    if route == "gram":
        return closed_form.domain_grams(orders, residuals, batch.features, weights, bias)
    if route == "pairwise":
        grams = closed_form.pairwise_grams(orders, residuals, batch.features, bias)
        return [weights.T @ grams[order] @ weights for order in orders]
    coordinates = [closed_form.domain_coordinates(order, residuals, batch.features, weights, bias) for order in orders]
    return [vectors @ vectors.T for vectors in coordinates]


def spreads(
    route: str,
    orders: Sequence[int],
    batch: HeadBatch,
    *,
    loss: str,
    bias: bool,
    num_domains: int | None = None,
    with_energies: bool = False,
    divisors: Sequence[float] | None = None,
) -> tuple[list[Tensor], list[Tensor]]:
    """Spread of the domains' derivatives for each order, divided by `divisors`, and the mean energies if requested."""
    if route == "gram":
        one_tile = len(batch.features) <= closed_form.TILE
        if one_tile and loss == "cross_entropy" and list(orders) == [1, 2] and not with_energies:
            by = (1.0, 1.0) if divisors is None else (divisors[0], divisors[1])
            return closed_form.softmax_spreads(*batch, bias, by), []
        statistics = ("spread", "energy") if with_energies else ("spread",)
        residuals = HEADS[loss](batch.logits, batch.targets)
        values = closed_form.gram_statistics(statistics, orders, residuals, batch.features, batch.domains, bias)
        return divided(values["spread"], divisors), values.get("energy", [])
    _, weights = closed_form.index_domains(batch.domains, num_domains, batch.features.dtype)
    present = weights.sum(0) > 0
    grams = grams_by_route(route, orders, batch, weights, loss=loss, bias=bias)
    samples = energies(orders, batch, loss=loss, bias=bias) if with_energies else []
    means = [weights.sum(1) @ values / present.sum() for values in samples]
    return divided([closed_form.present_spread(gram, present) for gram in grams], divisors), means


def divided(values: list[Tensor], divisors: Sequence[float] | None) -> list[Tensor]:
    """Values divided by their divisors, if any."""
    return values if divisors is None else [value / by for value, by in zip(values, divisors, strict=True)]


def energies(orders: Sequence[int], batch: HeadBatch, *, loss: str, bias: bool) -> list[Tensor]:
    """Squared norms of the samples' derivatives, shape (n,) for each order."""
    lengths = batch.features.square().sum(1) + bias
    residuals = HEADS[loss](batch.logits, batch.targets).energies(orders)
    return [residuals[order] * lengths**order for order in orders]


def mean_energies(orders: Sequence[int], batch: HeadBatch, *, loss: str, bias: bool) -> list[Tensor]:
    """Mean squared norm of the samples' derivatives, domains weighted equally; a scalar for each order."""
    samples = energies(orders, batch, loss=loss, bias=bias)
    return [closed_form.mean_over_domains(values, batch.domains) for values in samples]
