"""scikit-learn estimators for rows of several domains."""

from momentalign.sklearn._classifier import MomentAlignedClassifier
from momentalign.sklearn._classifier_cv import MomentAlignedClassifierCV
from momentalign.sklearn._isr import ISRCov, ISRMean
from momentalign.sklearn._regressor import MomentAlignedRegressor, MomentAlignedRegressorCV

__all__ = [
    "ISRCov",
    "ISRMean",
    "MomentAlignedClassifier",
    "MomentAlignedClassifierCV",
    "MomentAlignedRegressor",
    "MomentAlignedRegressorCV",
]
