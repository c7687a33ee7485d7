"""scikit-learn's own checks, and its tools at work with a column of domains."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from momentalign.linear import fit_group_dro, fit_head
from momentalign.sklearn import (
    DFRClassifier,
    GroupRobustClassifier,
    ISRCov,
    ISRMean,
    MomentAlignedClassifier,
    MomentAlignedClassifierCV,
    MomentAlignedRegressor,
    MomentAlignedRegressorCV,
)
from tests.linear.problems import make_problem

pytestmark = pytest.mark.slow

CLASSIFIERS = [MomentAlignedClassifier(), MomentAlignedClassifierCV((1,), (1,), (10,))]
PREDICTORS = [*CLASSIFIERS, MomentAlignedRegressor(), MomentAlignedRegressorCV((1,), (10,))]
names = pytest.mark.parametrize("estimator", PREDICTORS, ids=lambda estimator: type(estimator).__name__)


def sites(rows: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    problem = make_problem(2, n=rows)
    return problem.features, problem.targets, np.array(["north", "south", "west"])[np.arange(rows) % 3]


METHODS = ("balanced", "subsampled", "groupdro", "dfr", "cma")
ROBUST = [DFRClassifier((0.1,), refits=2), *(GroupRobustClassifier(name, draws=2, refits=2) for name in METHODS)]


def draws_rows(estimator: BaseEstimator) -> dict[str, str]:
    """Checks that cannot pass."""
    if getattr(estimator, "method", None) not in ("subsampled", "dfr") and not isinstance(estimator, DFRClassifier):
        return {}
    return {"check_sample_weight_equivalence_on_dense_data": "subsamples and held-out rows are drawn without weights"}


@pytest.mark.filterwarnings("ignore:Without '(domains|groups)'")
@pytest.mark.filterwarnings("ignore:Groups of one row")  # which is what weights of 0 leave of a class of few rows
@parametrize_with_checks([*PREDICTORS, *ROBUST, ISRMean(), ISRCov()], expected_failed_checks=draws_rows)
def test_scikit_learn_checks(estimator: BaseEstimator, check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it the check of array namespaces is skipped
    check(estimator)


@names
def test_domains_of_any_kind_and_order_give_the_same_fit(estimator: BaseEstimator) -> None:
    X, y, site = sites()
    reference = clone(estimator).fit(X, y, domains=site)
    order = np.random.default_rng(0).permutation(len(y))
    for X2, y2, given in [
        (X, y, pd.Series(site, dtype="category")),
        (X, y, site.tolist()),
        (X, y, np.unique(site, return_inverse=True)[1] * 10),
        (X[order], y[order], site[order]),
    ]:
        fitted = clone(estimator).fit(X2, y2, domains=given)
        np.testing.assert_allclose(fitted.coef_, reference.coef_, atol=1e-7)
    assert reference.domains_.tolist() == ["north", "south", "west"]


@pytest.mark.parametrize("estimator", ROBUST, ids=lambda estimator: getattr(estimator, "method", "DFRClassifier"))
@config_context(enable_metadata_routing=True)
def test_groups_of_any_kind_in_frames_and_pipelines(estimator: BaseEstimator) -> None:
    X, y, site = sites(90)
    labels = np.array(["no", "yes"])[y]
    group = pd.Series([f"{label} in {place}" for label, place in zip(labels, site, strict=True)], dtype="category")
    request = {"groups": True} | ({"domains": True} if hasattr(estimator, "method") else {})
    model = clone(estimator).set_fit_request(**request, sample_weight=True).set_score_request(sample_weight=True)
    given = {"groups": group, "sample_weight": np.ones(90)} | ({"domains": site} if "domains" in request else {})
    frame = pd.DataFrame(X, columns=list("abcd"))
    scaler = StandardScaler().set_output(transform="pandas").set_fit_request(sample_weight=False)
    fitted = make_pipeline(scaler, model).fit(frame, labels, **given)
    assert fitted[-1].feature_names_in_.tolist() == list("abcd")
    assert fitted[-1].groups_[0] == "no in north"
    assert set(fitted.predict(frame)) <= {"no", "yes"}
    copy = pickle.loads(pickle.dumps(fitted))
    again = clone(fitted).fit(frame, labels, **given | {"groups": np.unique(group, return_inverse=True)[1]})
    np.testing.assert_array_equal(copy[-1].coef_, fitted[-1].coef_)
    np.testing.assert_array_equal(again[-1].coef_, fitted[-1].coef_)
    assert cross_val_score(fitted, frame, labels, cv=3, params=given).shape == (3,)


@pytest.mark.parametrize(
    ("estimator", "error", "message"),
    [
        (MomentAlignedClassifier(scaling="relativ"), ValueError, "Did you mean 'relative'"),
        (MomentAlignedClassifier(gradient_weight=-1.0), ValueError, "'gradient_weight'"),
        (MomentAlignedClassifier(hessian_weight="much"), TypeError, "'hessian_weight' should be a number"),
        (MomentAlignedClassifier(l2=np.inf), ValueError, "'l2' should be finite"),
        (MomentAlignedRegressor(max_iter=0), ValueError, "'max_iter' should be at least 1"),
        (MomentAlignedClassifierCV(rule="worst"), ValueError, "'rule' should be one of"),
        (MomentAlignedClassifierCV(scoring="auc"), ValueError, "'scoring' parameter of check_scoring"),
        (MomentAlignedClassifierCV(folds=2), ValueError, "'folds' should be at least 3"),
        (MomentAlignedRegressorCV(l2_factors=(-1.0,)), ValueError, "'l2_factors' should be finite"),
        (MomentAlignedRegressorCV((-1.0,)), ValueError, "'gradient_weights' should be finite"),
    ],
)
def test_bad_parameters(estimator: BaseEstimator, error: type[Exception], message: str) -> None:
    X, y, site = sites()
    with pytest.raises(error, match=message):
        estimator.fit(X, y, domains=site)


@names
@pytest.mark.parametrize(
    ("domains", "message"),
    [
        (["a"] * 59, r"'domains' should have one entry per row of 'X' \(60\), but has shape \(59,\)\."),
        ([None] + ["a"] * 59, r"'domains' should hold a label for every row, but 1 are missing, first in row 0\."),
        ([0.0, np.nan] + [1.0] * 58, "1 are missing, first in row 1"),
        (np.array([pd.NA] + ["a"] * 59, dtype=object), "1 are missing, first in row 0"),
        (np.array(["NaT"] + ["2020-01-01"] * 59, dtype="datetime64[D]"), "1 are missing, first in row 0"),
        (np.array([1, "a"] * 30, dtype=object), "labels of one kind"),
    ],
)
def test_bad_domains(estimator: BaseEstimator, domains: object, message: str) -> None:
    X, y, _ = sites()
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(X, y, domains=domains)


@names
def test_none_or_one_domain_is_the_plain_model_and_a_warning(estimator: BaseEstimator) -> None:
    X, y, _ = sites()
    with pytest.warns(
        UserWarning, match=r"All rows are of domain .*'here'.*: with one domain there is nothing to compare"
    ):
        one = clone(estimator).fit(X, y, domains=["here"] * 60)
    with pytest.warns(UserWarning, match=r"Without 'domains' .* fit\(X, y, domains=site\)") as caught:
        none = clone(estimator).fit(X, y)
    assert {warning.filename for warning in caught} == {__file__}
    assert not one.aligned_
    assert not none.aligned_
    np.testing.assert_allclose(one.coef_, none.coef_)
    plain = (Ridge() if is_regressor(estimator) else LogisticRegression(tol=1e-8)).fit(X, y)
    np.testing.assert_allclose(none.coef_, plain.coef_, atol=1e-3)


@pytest.mark.parametrize("estimator", [*PREDICTORS, ISRMean()], ids=lambda estimator: type(estimator).__name__)
def test_groups_in_the_place_of_domains_are_refused(estimator: BaseEstimator) -> None:
    X, y, site = sites()
    with pytest.raises(TypeError, match="'groups'"):
        clone(estimator).fit(X, y, groups=site)


@names
@config_context(enable_metadata_routing=True)
def test_leave_one_domain_out_with_routing(estimator: BaseEstimator) -> None:
    X, y, site = sites(90)
    model = clone(estimator).set_fit_request(domains=True)
    params = {"domains": site, "groups": site}
    isr = ISRMean(n_components=None, scale=0.5).set_fit_request(domains=True)
    for one in (model, make_pipeline(StandardScaler(), isr, model)):
        scores = cross_val_score(one, X, y, cv=LeaveOneGroupOut(), params=params)
        assert scores.shape == (3,)
        assert np.isfinite(scores).all()
    search = GridSearchCV(model, {"tol": [1e-3, 1e-4]}, cv=LeaveOneGroupOut()).fit(X, y, **params)
    assert search.best_estimator_.domains_.tolist() == ["north", "south", "west"]


@names
def test_leave_one_domain_out_without_routing(estimator: BaseEstimator) -> None:
    X, y, site = sites(90)
    splits = {"groups": site, "cv": LeaveOneGroupOut()}
    with pytest.warns(UserWarning, match=r"params=\{'domains': site\}") as caught:
        cross_val_score(clone(estimator), X, y, **splits)
    assert {warning.filename for warning in caught} == {__file__}
    assert cross_val_score(clone(estimator), X, y, **splits, params={"domains": site}).shape == (3,)


@config_context(enable_metadata_routing=True)
def test_any_classifier_after_isr() -> None:
    X, y, site = sites(90)
    isr = ISRMean(1, n_components=None).set_fit_request(domains=True)
    model = make_pipeline(isr, LogisticRegression()).fit(X, y, domains=site)
    assert model[:-1].transform(X)[:, 0].tolist() == [0.0] * 90
    assert model[:-1].get_feature_names_out().tolist() == [f"isrmean{k}" for k in range(4)]


def test_warnings_point_at_the_line_of_the_user() -> None:
    X, y, site = sites()
    for fit in (
        lambda: ISRMean().fit(X, y),
        lambda: GroupRobustClassifier("cma").fit(X, y, groups=site),
        lambda: GroupRobustClassifier().fit(X, y),
        lambda: MomentAlignedClassifier(max_iter=1, tol=1e-12).fit(X, y, domains=site),
        lambda: fit_head(X, y, max_iter=1, tol=1e-12),
        lambda: fit_group_dro(X, y, y, classes=2, l2=0.1, max_iter=1, tol=1e-12),
    ):
        with pytest.warns(UserWarning, match="Without|stopped") as caught:
            fit()
        assert {warning.filename for warning in caught} == {__file__}
