"""Linear heads: one full-batch engine for every penalty, warm-started paths, least squares, SGD."""

from momentalign.linear._group_dro import GroupWeights, solve_group_dro
from momentalign.linear._head import LinearHead, rescale
from momentalign.linear._least_squares import AlignedLeastSquares, fit_least_squares, fit_least_squares_path
from momentalign.linear._objective import AlignmentObjective, Objective
from momentalign.linear._path import HeadCallback, fit_head, fit_path, solve_path
from momentalign.linear._penalty_objective import DomainwisePenalty, PenaltyObjective
from momentalign.linear._rows import SortedRows
from momentalign.linear._sgd import BatchPenalty, fit_sgd
from momentalign.linear._solver import Solution

__all__ = [
    "AlignedLeastSquares",
    "AlignmentObjective",
    "BatchPenalty",
    "DomainwisePenalty",
    "GroupWeights",
    "HeadCallback",
    "LinearHead",
    "Objective",
    "PenaltyObjective",
    "Solution",
    "SortedRows",
    "fit_head",
    "fit_least_squares",
    "fit_least_squares_path",
    "fit_path",
    "fit_sgd",
    "rescale",
    "solve_group_dro",
    "solve_path",
]
