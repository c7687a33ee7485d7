"""scikit-learn estimators for rows of several domains or groups, and measures of predictions by group."""

from momentalign._worst_group import worst_group_interval
from momentalign.sklearn._classifier import MomentAlignedClassifier, MomentAlignedClassifierCV
from momentalign.sklearn._dfr import DFRClassifier
from momentalign.sklearn._group_report import GroupReport, GroupScore, WorstGroup, group_report
from momentalign.sklearn._group_robust import GroupRobustClassifier
from momentalign.sklearn._isr import ISRCov, ISRMean
from momentalign.sklearn._regressor import MomentAlignedRegressor, MomentAlignedRegressorCV

__all__ = [
    "DFRClassifier",
    "GroupReport",
    "GroupRobustClassifier",
    "GroupScore",
    "ISRCov",
    "ISRMean",
    "MomentAlignedClassifier",
    "MomentAlignedClassifierCV",
    "MomentAlignedRegressor",
    "MomentAlignedRegressorCV",
    "WorstGroup",
    "group_report",
    "worst_group_interval",
]
