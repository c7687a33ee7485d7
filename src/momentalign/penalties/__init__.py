"""Penalties for any training loop: `penalty(features, logits, targets, domains)` is a number to add to the loss."""

from momentalign._batch import HeadBatch
from momentalign.penalties._base import DomainPenalty, PenaltyOptions
from momentalign.penalties._cma import CMA, GradientMatching, HessianMatching
from momentalign.penalties._coral import CORAL
from momentalign.penalties._fishr import Fishr
from momentalign.penalties._hgp import HGP
from momentalign.penalties._hutchinson import Hutchinson
from momentalign.penalties._irm import IRM
from momentalign.penalties._mmd import MMD
from momentalign.penalties._moment_alignment import MomentAlignment, term_name
from momentalign.penalties._vectors import VectorPenalty
from momentalign.penalties._vrex import VREx

__all__ = [
    "CMA",
    "CORAL",
    "HGP",
    "IRM",
    "MMD",
    "DomainPenalty",
    "Fishr",
    "GradientMatching",
    "HeadBatch",
    "HessianMatching",
    "Hutchinson",
    "MomentAlignment",
    "PenaltyOptions",
    "VREx",
    "VectorPenalty",
    "term_name",
]
