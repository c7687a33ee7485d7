"""Transfer measures, bounds on the error of an unseen domain, and the report that combines them."""

from momentalign.theory._bounds import (
    ManySourceBounds,
    TargetErrors,
    many_source_bounds,
    target_errors,
)
from momentalign.theory._distances import (
    DerivativeDistances,
    MomentGaps,
    derivative_distances,
    moment_distances,
    moment_gaps,
    tensor_moment_gaps,
)
from momentalign.theory._hull import HullCheck, hull_check
from momentalign.theory._losses import DomainLosses
from momentalign.theory._pareto import Combination, ParetoPoint, pareto_point, smallest_combination
from momentalign.theory._report import TransferReport, transfer_report
from momentalign.theory._taylor import TaylorBound, ball_radius, taylor_bounds
from momentalign.theory._transfer import TransferMeasures, mixture_transfers, transfer_measures

__all__ = [
    "Combination",
    "DerivativeDistances",
    "DomainLosses",
    "HullCheck",
    "ManySourceBounds",
    "MomentGaps",
    "ParetoPoint",
    "TargetErrors",
    "TaylorBound",
    "TransferMeasures",
    "TransferReport",
    "ball_radius",
    "derivative_distances",
    "hull_check",
    "many_source_bounds",
    "mixture_transfers",
    "moment_distances",
    "moment_gaps",
    "pareto_point",
    "smallest_combination",
    "target_errors",
    "taylor_bounds",
    "tensor_moment_gaps",
    "transfer_measures",
    "transfer_report",
]
