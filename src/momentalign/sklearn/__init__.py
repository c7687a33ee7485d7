"""scikit-learn estimators for rows of several domains or groups."""

from momentalign.sklearn._classifier import MomentAlignedClassifier
from momentalign.sklearn._classifier_cv import MomentAlignedClassifierCV
from momentalign.sklearn._dfr import DFRClassifier
from momentalign.sklearn._group_robust import GroupRobustClassifier
from momentalign.sklearn._isr import ISRCov, ISRMean
from momentalign.sklearn._regressor import MomentAlignedRegressor, MomentAlignedRegressorCV

__all__ = [
    "DFRClassifier",
    "GroupRobustClassifier",
    "ISRCov",
    "ISRMean",
    "MomentAlignedClassifier",
    "MomentAlignedClassifierCV",
    "MomentAlignedRegressor",
    "MomentAlignedRegressorCV",
]
