"""Penalties for any training loop: `penalty(features, logits, targets, domains)` is a number to add to the loss."""

from momentalign._batch import HeadBatch
from momentalign._search_space import (
    Hyperparameter,
    SearchSpace,
    annealing,
    one_of,
    power_of_ten,
    power_of_two,
    uniform,
    whole,
)
from momentalign.penalties._base import DomainPenalty, PenaltyOptions
from momentalign.penalties._cma import CMA, CMAMomentum, GradientMatching, HessianMatching
from momentalign.penalties._coral import CORAL
from momentalign.penalties._fishr import Fishr
from momentalign.penalties._hgp import HGP
from momentalign.penalties._hutchinson import CMADiagonal, Hutchinson
from momentalign.penalties._irm import IRM
from momentalign.penalties._mmd import MMD
from momentalign.penalties._moment_alignment import MomentAlignment, term_name
from momentalign.penalties._vectors import VectorPenalty
from momentalign.penalties._vrex import VREx

PENALTIES: tuple[type[DomainPenalty], ...] = (
    IRM,
    VREx,
    MMD,
    CORAL,
    Fishr,
    HGP,
    Hutchinson,
    GradientMatching,
    HessianMatching,
    MomentAlignment,
    CMA,
    CMAMomentum,
    CMADiagonal,
)
"""Penalties that are algorithms on the command line, in the order of tables."""

__all__ = [
    "CMA",
    "CORAL",
    "HGP",
    "IRM",
    "MMD",
    "PENALTIES",
    "CMADiagonal",
    "CMAMomentum",
    "DomainPenalty",
    "Fishr",
    "GradientMatching",
    "HeadBatch",
    "HessianMatching",
    "Hutchinson",
    "Hyperparameter",
    "MomentAlignment",
    "PenaltyOptions",
    "SearchSpace",
    "VREx",
    "VectorPenalty",
    "annealing",
    "one_of",
    "power_of_ten",
    "power_of_two",
    "term_name",
    "uniform",
    "whole",
]
