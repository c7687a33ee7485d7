"""Mathematics on tensors: no state, no files, no randomness, no validation of inputs."""

from momentalign.closed_form._coral_distances import coral_distances, pairs_per_spread
from momentalign.closed_form._decayed_spreads import decayed_spreads
from momentalign.closed_form._diagonal_spreads import diagonal_spreads
from momentalign.closed_form._direct import (
    DIRECT_LIMIT,
    direct_size,
    domain_coordinates,
    domain_tensors,
    with_constant,
)
from momentalign.closed_form._domains import (
    averages,
    distances,
    domain_weights,
    gram_spread,
    index_domains,
    mean_over_domains,
    norms,
    present_spread,
    same,
    shares,
    spread,
)
from momentalign.closed_form._gram import TILE, cross_grams, domain_grams, gram_statistics, sample_grams
from momentalign.closed_form._heads import LogisticResiduals, Residuals, SquaredErrorResiduals
from momentalign.closed_form._product_spreads import product_spreads
from momentalign.closed_form._routes import cheapest_route, pairwise_grams
from momentalign.closed_form._scale import unit_features, unit_scale
from momentalign.closed_form._softmax import SoftmaxResiduals
from momentalign.closed_form._softmax_spreads import softmax_spreads
from momentalign.closed_form._variance_spread import variance_spread

HEADS: dict[str, type[SoftmaxResiduals] | type[LogisticResiduals] | type[SquaredErrorResiduals]] = {
    "cross_entropy": SoftmaxResiduals,
    "logistic": LogisticResiduals,
    "squared_error": SquaredErrorResiduals,
}
"""Residuals of each loss by its name."""

__all__ = [
    "DIRECT_LIMIT",
    "HEADS",
    "TILE",
    "LogisticResiduals",
    "Residuals",
    "SoftmaxResiduals",
    "SquaredErrorResiduals",
    "averages",
    "cheapest_route",
    "coral_distances",
    "cross_grams",
    "decayed_spreads",
    "diagonal_spreads",
    "direct_size",
    "distances",
    "domain_coordinates",
    "domain_grams",
    "domain_tensors",
    "domain_weights",
    "gram_spread",
    "gram_statistics",
    "index_domains",
    "mean_over_domains",
    "norms",
    "pairs_per_spread",
    "pairwise_grams",
    "present_spread",
    "product_spreads",
    "same",
    "sample_grams",
    "shares",
    "softmax_spreads",
    "spread",
    "unit_features",
    "unit_scale",
    "variance_spread",
    "with_constant",
]
