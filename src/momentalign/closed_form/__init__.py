"""Mathematics on tensors: no state, no files, no randomness, no checks of what comes in."""

from momentalign.closed_form._direct import LARGEST, direct_size, domain_coordinates, domain_tensors, with_constant
from momentalign.closed_form._domains import (
    averages,
    counts,
    domain_means,
    gram_spread,
    index_domains,
    mean_over_domains,
    number_of_domains,
    same,
    shares,
)
from momentalign.closed_form._gram import cross_grams, domain_grams, gram_statistics, sample_grams
from momentalign.closed_form._heads import LogisticResiduals, Residuals, SquaredErrorResiduals
from momentalign.closed_form._moment_distances import moment_distances, pairs_per_spread
from momentalign.closed_form._pairwise import pairwise_grams
from momentalign.closed_form._product_spreads import product_spreads
from momentalign.closed_form._route import cheapest_route
from momentalign.closed_form._softmax import SoftmaxResiduals
from momentalign.closed_form._softmax_gradient import softmax_gradient
from momentalign.closed_form._softmax_spreads import softmax_spreads
from momentalign.closed_form._statistics import distances, norms, spread
from momentalign.closed_form._tiles import TILE
from momentalign.closed_form._variance_spread import variance_spread

HEADS: dict[str, type[SoftmaxResiduals] | type[LogisticResiduals] | type[SquaredErrorResiduals]] = {
    "cross_entropy": SoftmaxResiduals,
    "logistic": LogisticResiduals,
    "squared_error": SquaredErrorResiduals,
}
"""The losses by the name people type."""

__all__ = [
    "HEADS",
    "LARGEST",
    "TILE",
    "LogisticResiduals",
    "Residuals",
    "SoftmaxResiduals",
    "SquaredErrorResiduals",
    "averages",
    "cheapest_route",
    "counts",
    "cross_grams",
    "direct_size",
    "distances",
    "domain_coordinates",
    "domain_grams",
    "domain_means",
    "domain_tensors",
    "gram_spread",
    "gram_statistics",
    "index_domains",
    "mean_over_domains",
    "moment_distances",
    "norms",
    "number_of_domains",
    "pairs_per_spread",
    "pairwise_grams",
    "product_spreads",
    "same",
    "sample_grams",
    "shares",
    "softmax_gradient",
    "softmax_spreads",
    "spread",
    "variance_spread",
    "with_constant",
]
