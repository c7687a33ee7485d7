"""Linear heads: one full-batch engine for every penalty, warm-started paths, least squares, SGD, worst groups."""

from momentalign.linear._alignment_objective import AlignmentObjective
from momentalign.linear._dfr import PUBLISHED_CS, PUBLISHED_REFITS, DFRFit, fit_dfr
from momentalign.linear._group_dro import GroupWeights, fit_group_dro, solve_group_dro
from momentalign.linear._head import LinearHead, rescale
from momentalign.linear._least_squares import AlignedLeastSquares
from momentalign.linear._objective import Objective
from momentalign.linear._path import HeadCallback, fit_head, fit_path, solve_path
from momentalign.linear._penalty_objective import PenaltyObjective
from momentalign.linear._reweighting import (
    balance_weights,
    fit_subsampled,
    split_groups,
    subsample_groups,
    unit_l2,
)
from momentalign.linear._rows import SortedRows
from momentalign.linear._sgd import BatchPenalty, fit_sgd
from momentalign.linear._solver import Solution

__all__ = [
    "PUBLISHED_CS",
    "PUBLISHED_REFITS",
    "AlignedLeastSquares",
    "AlignmentObjective",
    "BatchPenalty",
    "DFRFit",
    "GroupWeights",
    "HeadCallback",
    "LinearHead",
    "Objective",
    "PenaltyObjective",
    "Solution",
    "SortedRows",
    "balance_weights",
    "fit_dfr",
    "fit_group_dro",
    "fit_head",
    "fit_path",
    "fit_sgd",
    "fit_subsampled",
    "rescale",
    "solve_group_dro",
    "solve_path",
    "split_groups",
    "subsample_groups",
    "unit_l2",
]
