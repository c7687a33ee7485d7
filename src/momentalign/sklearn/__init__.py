"""Estimators for arrays and tables with a column that says where each row came from, by scikit-learn's contract."""

from momentalign.sklearn._classifier import MomentAlignedClassifier
from momentalign.sklearn._classifier_cv import MomentAlignedClassifierCV
from momentalign.sklearn._isr import ISRCov, ISRMean
from momentalign.sklearn._regressor import MomentAlignedRegressor
from momentalign.sklearn._regressor_cv import MomentAlignedRegressorCV

__all__ = [
    "ISRCov",
    "ISRMean",
    "MomentAlignedClassifier",
    "MomentAlignedClassifierCV",
    "MomentAlignedRegressor",
    "MomentAlignedRegressorCV",
]
