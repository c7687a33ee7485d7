"""Estimators over generated tables: numbers for numbers, and anything else is an error in words."""

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from momentalign.sklearn import (
    DFRClassifier,
    GroupRobustClassifier,
    ISRCov,
    ISRMean,
    MomentAlignedClassifier,
    MomentAlignedClassifierCV,
    MomentAlignedRegressor,
    MomentAlignedRegressorCV,
    group_report,
)
from tests.generated.cases import answer, cases
from tests.generated.strategies.arrays import GeneratedRows, tables

scalings = st.sampled_from(["relative", "none", "classes", "parameters"])
weights = st.sampled_from([0.0, 1.0, 100.0])
rules = st.sampled_from(["cautious", "best"])
few, short = st.just((1.0,)), st.just(20)


def _robust(method: str, by: str) -> Any:
    return GroupRobustClassifier(method, draws=2, refits=2, Cs=(1.0,), max_iter=20), by


MODELS: dict[str, tuple[st.SearchStrategy[Any], str]] = {
    "classifier": (
        st.builds(MomentAlignedClassifier, weights, weights, scaling=scalings, fit_intercept=st.booleans()),
        "y",
    ),
    "regressor": (st.builds(MomentAlignedRegressor, weights, scaling=scalings, fit_intercept=st.booleans()), "numbers"),
    "classifier that searches": (
        st.builds(MomentAlignedClassifierCV, few, few, few, rule=rules, max_iter=short, folds=st.just(3)),
        "y",
    ),
    "regressor that searches": (st.builds(MomentAlignedRegressorCV, few, few, rule=rules, max_iter=short), "numbers"),
    "group-robust": (
        st.builds(
            _robust,
            st.sampled_from(["balanced", "subsampled", "groupdro", "dfr", "cma"]),
            st.sampled_from(["groups", "domains"]),
        ),
        "y",
    ),
    "reweighting": (st.builds(lambda: (DFRClassifier(Cs=(1.0,), refits=2, max_iter=20), "groups")), "y"),
    "subspace": (
        st.builds(
            lambda make, components: make(n_components=components, scale=0.5),
            st.sampled_from([ISRMean, ISRCov]),
            st.sampled_from([None, 1, 100]),
        ),
        "y",
    ),
}
"""A model, or a model and what it takes the domains as; and what it predicts."""


@pytest.mark.parametrize("name", MODELS)
@cases(rows=tables(exponents=(-5, 9), least=9), data=st.data())
def test_estimators(name: str, rows: GeneratedRows, data: st.DataObject) -> None:
    strategy, target = MODELS[name]
    drawn = data.draw(strategy)
    model, by = drawn if isinstance(drawn, tuple) else (drawn, "domains")
    given: dict[str, Any] = {by: rows.domains}
    if not isinstance(model, ISRMean | ISRCov | DFRClassifier):
        given["sample_weight"] = rows.weights
    fitted = answer(lambda: model.fit(rows.X, getattr(rows, target), **given))
    if fitted is None:
        return
    if hasattr(model, "transform"):
        assert np.isfinite(model.transform(rows.X)).all()
        return
    predicted = model.predict(rows.X)
    assert len(predicted) == len(rows.X)
    assert getattr(model, "reason_", "chosen")
    if hasattr(model, "classes_"):
        probabilities = model.predict_proba(rows.X)
        assert np.isfinite(probabilities).all()
        np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-6)
        assert set(predicted.tolist()) <= set(model.classes_.tolist())
    else:
        assert np.isfinite(predicted).all()


@cases(rows=tables())
def test_group_report(rows: GeneratedRows) -> None:
    report = answer(lambda: group_report(rows.y, rows.y[::-1], rows.domains))
    if report is not None:
        assert "nan" not in str(report)
