"""Four hospitals: real rows, missing values, whole columns missing at some places."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from momentalign.sklearn import MomentAlignedClassifier, MomentAlignedClassifierCV

FOLDER = os.environ.get("MOMENTALIGN_DATA")
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")

pytestmark = pytest.mark.skipif(FOLDER is None, reason="MOMENTALIGN_DATA does not name a folder with heart-disease/")


@pytest.fixture(scope="module")
def heart() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    folder = Path(str(FOLDER)) / "heart-disease"
    tables = [pd.read_csv(folder / f"processed.{name}.data", header=None, na_values="?") for name in HOSPITALS]
    rows = pd.concat(tables)
    hospital = np.repeat(HOSPITALS, [len(table) for table in tables])
    return rows.iloc[:, :13].to_numpy(float), (rows.iloc[:, 13] > 0).to_numpy(), hospital


def left_out(estimator, heart: tuple[np.ndarray, np.ndarray, np.ndarray]) -> list[float]:
    """Accuracy at each hospital of a model that has not seen it."""
    X, y, hospital = heart
    scores = []
    for name in HOSPITALS:
        train, test = hospital != name, hospital == name
        prepare = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()).fit(X[train])
        options = {} if isinstance(estimator, LogisticRegression) else {"domains": hospital[train]}
        fitted = estimator.fit(prepare.transform(X[train]), y[train], **options)
        scores.append(fitted.score(prepare.transform(X[test]), y[test]))
    return scores


def test_it_does_not_end_below_logistic_regression(heart: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    plain = left_out(LogisticRegression(), heart)
    for estimator in (MomentAlignedClassifierCV(), MomentAlignedClassifier()):
        aligned = left_out(estimator, heart)
        assert np.mean(aligned) > np.mean(plain) - 0.005
        assert min(aligned) >= min(plain)
