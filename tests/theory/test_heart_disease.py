"""The report on real data: four hospitals of the UCI heart-disease set, where they are at hand."""

import os
from pathlib import Path

import numpy as np
import pytest

from momentalign.theory import transfer_report

FOLDER = Path(os.environ.get("MOMENTALIGN_DATA", "")) / "heart-disease"
HOSPITALS = {"Cleveland": "cleveland", "Hungary": "hungarian", "Switzerland": "switzerland", "Long Beach VA": "va"}

pytestmark = pytest.mark.skipif(
    "MOMENTALIGN_DATA" not in os.environ or not FOLDER.is_dir(),
    reason="needs the folder heart-disease in the folder that MOMENTALIGN_DATA names",
)


def test_report() -> None:
    tables = [np.genfromtxt(FOLDER / f"processed.{name}.data", delimiter=",") for name in HOSPITALS.values()]
    site = np.repeat(list(HOSPITALS), [len(table) for table in tables])
    table = np.vstack(tables)
    X, y = table[:, :-1], np.where(table[:, -1] > 0, "ill", "healthy")
    X = np.where(np.isnan(X), np.nanmedian(X, 0), X)
    X = (X - X.mean(0)) / X.std(0)
    left_out = site == "Long Beach VA"
    report = transfer_report(X[~left_out], y[~left_out], site[~left_out], target=X[left_out], target_labels=y[left_out])
    assert set(report.worst_pair) <= set(HOSPITALS)
    assert report.pareto.check.norm < 1e-6
    assert report.target is not None
    assert report.target.loss <= report.target.bound
    assert (report.measures.one_sided <= report.taylor[3, "full"].pairs + report.taylor[3, "full"].remainder).all()
    assert report.hull is not None
    assert not report.hull.tenable  # whole columns were not measured there
    assert "Switzerland" in str(report)
