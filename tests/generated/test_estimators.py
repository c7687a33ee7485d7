"""Estimators over generated tables: numbers for numbers, and anything else is an error in words."""

from typing import Any

import numpy as np
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


def assert_finite(model: Any, rows: GeneratedRows) -> None:
    """Predictions are numbers; so are probabilities, which sum to one."""
    if hasattr(model, "transform"):
        assert np.isfinite(model.transform(rows.X)).all()
        return
    predicted = model.predict(rows.X)
    assert len(predicted) == len(rows.X)
    if hasattr(model, "classes_"):
        probabilities = model.predict_proba(rows.X)
        assert np.isfinite(probabilities).all()
        np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-6)
        assert set(predicted.tolist()) <= set(model.classes_.tolist())
    else:
        assert np.isfinite(predicted).all()


scalings = st.sampled_from(["relative", "none", "classes", "parameters"])
weights = st.sampled_from([0.0, 1.0, 100.0])


@cases(rows=tables(), scaling=scalings, gradient=weights, hessian=weights, intercept=st.booleans())
def test_classifier(rows: GeneratedRows, scaling: str, gradient: float, hessian: float, intercept: bool) -> None:
    model = MomentAlignedClassifier(gradient, hessian, scaling=scaling, fit_intercept=intercept, max_iter=50)
    fitted = answer(lambda: model.fit(rows.X, rows.y, domains=rows.domains, sample_weight=rows.weights))
    if fitted is not None:
        assert_finite(fitted, rows)


@cases(rows=tables(), scaling=scalings, gradient=weights, intercept=st.booleans())
def test_regressor(rows: GeneratedRows, scaling: str, gradient: float, intercept: bool) -> None:
    model = MomentAlignedRegressor(gradient, scaling=scaling, fit_intercept=intercept, max_iter=50)
    fitted = answer(lambda: model.fit(rows.X, rows.numbers, domains=rows.domains, sample_weight=rows.weights))
    if fitted is not None:
        assert_finite(fitted, rows)


@cases(rows=tables(exponents=(-5, 9)), rule=st.sampled_from(["cautious", "best"]))
def test_classifier_that_searches(rows: GeneratedRows, rule: str) -> None:
    model = MomentAlignedClassifierCV((1.0,), (1.0,), (0.1,), rule=rule, max_iter=20, folds=3)
    fitted = answer(lambda: model.fit(rows.X, rows.y, domains=rows.domains, sample_weight=rows.weights))
    if fitted is not None:
        assert_finite(fitted, rows)
        assert fitted.reason_


@cases(rows=tables(exponents=(-5, 9)), rule=st.sampled_from(["cautious", "best"]))
def test_regressor_that_searches(rows: GeneratedRows, rule: str) -> None:
    model = MomentAlignedRegressorCV((1.0,), (0.1,), rule=rule, max_iter=20)
    fitted = answer(lambda: model.fit(rows.X, rows.numbers, domains=rows.domains, sample_weight=rows.weights))
    if fitted is not None:
        assert_finite(fitted, rows)
        assert fitted.reason_


@cases(
    rows=tables(exponents=(-5, 9)),
    method=st.sampled_from(["balanced", "subsampled", "groupdro", "dfr", "cma"]),
    with_groups=st.booleans(),
)
def test_group_robust_classifier(rows: GeneratedRows, method: str, with_groups: bool) -> None:
    model = GroupRobustClassifier(method, draws=2, refits=2, Cs=(1.0,), max_iter=20)
    given = {"groups": rows.domains} if with_groups else {"domains": rows.domains}
    fitted = answer(lambda: model.fit(rows.X, rows.y, **given, sample_weight=rows.weights))
    if fitted is not None:
        assert_finite(fitted, rows)


@cases(
    rows=tables(exponents=(-5, 9)), make=st.sampled_from([ISRMean, ISRCov]), components=st.sampled_from([None, 2, 100])
)
def test_subspace_recovery(rows: GeneratedRows, make: Any, components: int | None) -> None:
    model = make(n_components=components, scale=0.5)
    fitted = answer(lambda: model.fit(rows.X, rows.y, domains=rows.domains))
    if fitted is not None:
        assert_finite(fitted, rows)


@cases(rows=tables(exponents=(-5, 9)))
def test_deep_feature_reweighting(rows: GeneratedRows) -> None:
    model = DFRClassifier(Cs=(1.0,), refits=2, max_iter=20)
    fitted = answer(lambda: model.fit(rows.X, rows.y, groups=rows.domains))
    if fitted is not None:
        assert_finite(fitted, rows)


@cases(rows=tables())
def test_group_report(rows: GeneratedRows) -> None:
    report = answer(lambda: group_report(rows.y, rows.y[::-1], rows.domains))
    if report is not None:
        assert "nan" not in str(report)
