import re

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from momentalign import CMA
from momentalign.sklearn import MomentAlignedClassifier
from tests.linear.problems import make_problem

pytestmark = pytest.mark.filterwarnings("ignore:Without 'domains'")


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_weights_of_zero_are_logistic_regression(classes: int, fit_intercept: bool) -> None:
    problem = make_problem(classes, n=120)
    X, y = problem.features, np.array(["x", "y", "z"])[problem.targets]
    plain = LogisticRegression(C=1 / (0.05 * 120), fit_intercept=fit_intercept, tol=1e-9, max_iter=10_000).fit(X, y)
    ours = MomentAlignedClassifier(0, 0, l2=0.05, fit_intercept=fit_intercept, tol=1e-9)
    for fitted in (ours.fit(X, y, domains=np.arange(120) % 4), ours.fit(X, y)):
        np.testing.assert_allclose(fitted.coef_, plain.coef_, atol=1e-5)
        np.testing.assert_allclose(fitted.intercept_, plain.intercept_, atol=1e-5)
        np.testing.assert_allclose(fitted.predict_proba(X), plain.predict_proba(X), atol=1e-5)
        np.testing.assert_allclose(fitted.predict_log_proba(X), plain.predict_log_proba(X), atol=1e-4)
        np.testing.assert_allclose(fitted.decision_function(X), plain.decision_function(X), atol=1e-4)
        assert (fitted.predict(X) == plain.predict(X)).all()


@pytest.mark.parametrize("scaling", ["none", "relative"])
def test_aligning_brings_the_penalty_down(scaling: str) -> None:
    problem = make_problem(3, n=200)
    penalty = CMA(1.0, 1.0, scaling=scaling)

    def measured(classifier: MomentAlignedClassifier) -> float:
        classifier.fit(problem.features, problem.targets, domains=problem.domains)
        logits = torch.as_tensor(classifier.decision_function(problem.features))
        return penalty(*map(torch.as_tensor, (problem.features, logits, problem.targets, problem.domains))).item()

    values = [measured(MomentAlignedClassifier(weight, weight, scaling=scaling)) for weight in (0, 1, 30)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.7 * values[0]


def test_it_holds_up_where_a_shortcut_turns_around() -> None:
    rng = np.random.default_rng(0)

    def site(rows: int, shortcut: float) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(0, 2, rows)
        lasting = (2 * y - 1) + 1.2 * rng.normal(size=rows)
        fleeting = shortcut * (2 * y - 1) + 0.6 * rng.normal(size=rows)
        return np.column_stack([lasting, fleeting]), y

    (X1, y1), (X2, y2), (X3, y3) = site(800, 1.0), site(800, 0.2), site(800, -1.0)
    X, y, domains = np.vstack([X1, X2]), np.append(y1, y2), ["one"] * 800 + ["two"] * 800
    plain = MomentAlignedClassifier(0, 0).fit(X, y, domains=domains).score(X3, y3)
    aligned = MomentAlignedClassifier(100, 0).fit(X, y, domains=domains).score(X3, y3)
    assert aligned > plain + 0.1


def test_a_domain_with_one_class_works() -> None:
    problem = make_problem(2)
    y = np.where(problem.domains == 5, 0, problem.targets)
    assert MomentAlignedClassifier().fit(problem.features, y, domains=problem.domains).aligned_


def test_running_out_of_iterations_is_said() -> None:
    problem = make_problem(2)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        MomentAlignedClassifier(max_iter=1, tol=1e-9).fit(problem.features, problem.targets)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"scaling": "relativ"}, ValueError, "Did you mean 'relative'?"),
        ({"gradient_weight": -1.0}, ValueError, "'gradient_weight' should be finite and not below 0"),
        ({"hessian_weight": "much"}, TypeError, "'hessian_weight' should be a number"),
        ({"l2": np.inf}, ValueError, "'l2' should be finite"),
        ({"max_iter": 0}, ValueError, "'max_iter' should be at least 1"),
    ],
)
def test_bad_parameters(parameters: dict, error: type[Exception], message: str) -> None:
    problem = make_problem(2)
    with pytest.raises(error, match=re.escape(message)):
        MomentAlignedClassifier(**parameters).fit(problem.features, problem.targets)


def test_bad_rows() -> None:
    problem = make_problem(2)
    with pytest.raises(ValueError, match="one class"):
        MomentAlignedClassifier().fit(problem.features, np.zeros(60))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            MomentAlignedClassifier().fit(np.full((60, 4), bad), problem.targets)
