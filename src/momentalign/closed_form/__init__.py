"""Mathematics on tensors: no state, no files, no randomness, no validation of inputs."""

from momentalign.closed_form._cma import weighted_spreads
from momentalign.closed_form._coral import coral_distances, pairs_per_spread
from momentalign.closed_form._decayed import decayed_spreads
from momentalign.closed_form._direct import (
    DIRECT_LIMIT,
    blocks_shape,
    can_read_values,
    direct_size,
    domain_blocks,
    domain_tensors,
    with_constant,
)
from momentalign.closed_form._domains import (
    averages,
    distances,
    domain_labels,
    domain_weights,
    gram_spread,
    mean_over_domains,
    norms,
    present_spread,
    same,
    shares,
    spread,
)
from momentalign.closed_form._gram import TILE, cross_grams, domain_grams, gram_spreads, sample_grams
from momentalign.closed_form._heads import LogisticResiduals, Residuals, SquaredErrorResiduals
from momentalign.closed_form._pairwise import pairwise_gram
from momentalign.closed_form._rows import HeadRows, gradients, hessian_diagonals, hessian_times, variances
from momentalign.closed_form._scale import unit_features, unit_scale
from momentalign.closed_form._softmax import SoftmaxResiduals

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
    "HeadRows",
    "LogisticResiduals",
    "Residuals",
    "SoftmaxResiduals",
    "SquaredErrorResiduals",
    "averages",
    "blocks_shape",
    "can_read_values",
    "coral_distances",
    "cross_grams",
    "decayed_spreads",
    "direct_size",
    "distances",
    "domain_blocks",
    "domain_grams",
    "domain_labels",
    "domain_tensors",
    "domain_weights",
    "gradients",
    "gram_spread",
    "gram_spreads",
    "hessian_diagonals",
    "hessian_times",
    "mean_over_domains",
    "norms",
    "pairs_per_spread",
    "pairwise_gram",
    "present_spread",
    "same",
    "sample_grams",
    "shares",
    "spread",
    "unit_features",
    "unit_scale",
    "variances",
    "weighted_spreads",
    "with_constant",
]
