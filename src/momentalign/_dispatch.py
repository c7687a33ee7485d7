"""Domain Grams and their spreads from a checked batch, by the requested or the cheapest route."""

from collections.abc import Sequence

from torch import Tensor

from momentalign import closed_form
from momentalign._batch import HeadBatch
from momentalign.closed_form import DIRECT_LIMIT, HEADS

ROUTES = ("auto", "gram", "direct", "pairwise")

_FEW = 2048
"""Rows up to which a device synchronisation costs more than the cheaper route saves."""

_CALL = 6e6
"""What a call of the direct route takes more before any arithmetic, in the multiply-adds of :func:`resolve_route`."""


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
    # Multiply-adds of the Gram route: with every other row, the elementwise work as 20.
    gram, call = samples * (samples + past) * (width + 4 * classes + 20), 0.0 if past else _CALL
    if route == "auto" and gram <= call:
        return "gram"
    sizes = [closed_form.direct_size(order, HEADS[loss], width + bias, classes) for order in orders]
    if route == "auto":
        # Of the direct route: into each domain's derivative. One CPU thread, forward and backward, Gram and direct in
        # ms: gradients of n=192 d=128 C=2 K=3 0.4, 0.5; CMA of n=2048 d=64 C=2 75, 2.5; n=500 d=100 C=10 5, 27; with
        # 135 batches of 128 rows past, d=128, K=3: C=10 27, 10; C=65 190, 300.
        direct = [samples * size for size in sizes if size is not None and size <= DIRECT_LIMIT]
        if len(direct) < len(sizes) or 2 * sum(direct) + call > gram:
            return "gram"
        if num_domains is None:  # has to be read back, which a memory of past batches has done already
            features = batch.features
            if not closed_form.can_read_values(features) or not (past or features.is_cpu or samples > _FEW):
                return "gram"
            num_domains = len(batch.domains.unique())
        return "direct" if num_domains * sum(direct) + call < gram else "gram"
    if route == "pairwise" and max(orders) > 2:
        raise ValueError(f"Route 'pairwise' takes orders 1 and 2, but got {max(orders)}. Use route='gram'.")
    for order, size in zip(orders, sizes, strict=True) if route == "direct" else ():
        if size is None:
            raise ValueError(
                f"Route 'direct' takes orders 1 and 2 of loss '{loss}', but got {order}. Use route='gram'."
            )
        if size > DIRECT_LIMIT:
            raise ValueError(
                f"Route 'direct' would build {size:.2g} numbers for each domain (order {order}, d = {width + bias}, "
                f"C = {classes}), more than {DIRECT_LIMIT:.2g}. Use route='gram'."
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
        grams = [closed_form.pairwise_gram(order, residuals, batch.features, bias) for order in orders]
        return [weights.T @ gram @ weights for gram in grams]
    blocks = [closed_form.domain_blocks(order, residuals, batch.features, weights, bias) for order in orders]
    return [residuals.inner(order, block) for order, block in zip(orders, blocks, strict=True)]


def spreads(
    route: str,
    orders: Sequence[int],
    batch: HeadBatch,
    *,
    loss: str,
    bias: bool,
    num_domains: int | None = None,
    with_energies: bool = False,
) -> tuple[list[Tensor], list[Tensor]]:
    """Spread of the domains' derivatives for each order, and the mean energies if requested."""
    if route == "gram":
        residuals = HEADS[loss](batch.logits, batch.targets)
        return closed_form.gram_spreads(
            orders, residuals, batch.features, batch.domains, bias, with_energies=with_energies
        )
    labels = closed_form.domain_labels(batch.domains, num_domains)
    weights = closed_form.domain_weights(batch.domains, labels, batch.features.dtype)
    grams = grams_by_route(route, orders, batch, weights, loss=loss, bias=bias)
    means = mean_energies(orders, batch, loss=loss, bias=bias) if with_energies else []
    return [closed_form.present_spread(gram, weights.sum(0) > 0) for gram in grams], means


def energies(orders: Sequence[int], batch: HeadBatch, *, loss: str, bias: bool) -> list[Tensor]:
    """Squared norms of the samples' derivatives, shape (n,) for each order."""
    lengths = batch.features.square().sum(1) + bias
    residuals = HEADS[loss](batch.logits, batch.targets).energies(orders)
    return [residuals[order] * lengths**order for order in orders]


def mean_energies(orders: Sequence[int], batch: HeadBatch, *, loss: str, bias: bool) -> list[Tensor]:
    """Mean squared norm of the samples' derivatives, domains weighted equally; a scalar for each order."""
    samples = energies(orders, batch, loss=loss, bias=bias)
    return [closed_form.mean_over_domains(values, batch.domains) for values in samples]
