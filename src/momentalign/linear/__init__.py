"""Fitting linear heads: the penalised objective and its gradient, L-BFGS, warm-started paths, least squares, SGD."""

from momentalign.linear._least_squares import AlignedLeastSquares, fit_least_squares, fit_least_squares_path
from momentalign.linear._objective import PenalisedObjective
from momentalign.linear._path import LinearHead, fit_head, fit_path
from momentalign.linear._rescale import rescale
from momentalign.linear._rows import Rows
from momentalign.linear._sgd import fit_sgd

__all__ = [
    "AlignedLeastSquares",
    "LinearHead",
    "PenalisedObjective",
    "Rows",
    "fit_head",
    "fit_least_squares",
    "fit_least_squares_path",
    "fit_path",
    "fit_sgd",
    "rescale",
]
