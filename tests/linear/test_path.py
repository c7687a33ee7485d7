import re

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from momentalign.linear import AlignmentObjective, SortedRows, fit_head, fit_path, solve_path
from tests.linear.problems import SCALINGS, make_problem, reference


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("classes", [0, 2, 4])
def test_the_gradient_vanishes_at_the_solution(classes: int, scaling: str, bias: bool) -> None:
    problem, weights = make_problem(classes), {1: 1.0, 2: 2.0} if classes else {1: 2.0}
    head = fit_head(*problem.columns, weights, loss=problem.loss, scaling=scaling, bias=bias, tol=1e-8)
    assert head.converged
    W = np.column_stack([head.coef, head.intercept]) if bias else head.coef
    value, gradient = reference(problem, W, weights, l2=1e-3, scaling=scaling, bias=bias)
    assert np.abs(gradient).max() < 1e-6
    assert head.objective == pytest.approx(value)


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_a_path_equals_separate_fits(classes: int) -> None:
    problem = make_problem(classes, n=200)
    settings = [{1: 3.0}, {}, {1: 0.3}, {}, {1: 0.0}] if not classes else [{1: 3.0}, {}, {1: 0.3, 2: 0.3}, {}, {2: 3.0}]
    options = {"loss": problem.loss, "tol": 1e-9}
    for l2s in (0.1, [0.1, 0.1, 1.0, 1.0, 0.01]):
        path = fit_path(*problem.columns, settings, l2=l2s, **options)
        for setting, l2, head in zip(settings, np.broadcast_to(l2s, 5), path, strict=True):
            alone = fit_head(*problem.columns, setting, l2=l2, **options)
            np.testing.assert_allclose(head.coef, alone.coef, atol=1e-6)
            assert head.objective == pytest.approx(alone.objective, rel=1e-9)


BLOCKS = {"_objective.DENSE": 1, "_alignment_objective._DENSE_SQUARES": 1}


@pytest.mark.parametrize("limits", [{"_path._SUBSET": 100}, BLOCKS, {**BLOCKS, "_objective.SQUARE": 1}])
def test_first_guesses_and_cheaper_preconditioners_do_not_change_the_solution(
    limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make_problem(3, n=1000)
    expected = fit_head(*problem.columns, {1: 1.0, 2: 1.0}, l2=0.1, tol=1e-8)
    for name, value in limits.items():
        monkeypatch.setattr(f"momentalign.linear.{name}", value)
    found = fit_head(*problem.columns, {1: 1.0, 2: 1.0}, l2=0.1, tol=1e-8)
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-5)


def test_constant_columns_and_missing_classes_work() -> None:
    problem = make_problem(3)
    features = np.column_stack([problem.features, np.zeros(60), np.ones(60)])
    targets = np.where(problem.domains == 5, 0, problem.targets)  # one domain with one class only
    head = fit_head(features, targets, problem.domains, {1: 1.0, 2: 1.0})
    assert head.converged
    assert np.isfinite(head.coef).all()
    assert np.abs(head.coef[:, 4]).max() < 1e-12


def test_running_out_of_iterations_is_said() -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter=1 iterations"):
        head = fit_head(*make_problem(2).columns, {1: 1.0}, max_iter=1, tol=1e-12)
    assert not head.converged


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"domains": np.zeros(59, int)}, "inconsistent numbers of samples: [60, 60, 59]"),
        ({"features": np.zeros((0, 4)), "targets": np.zeros(0, int), "domains": None}, "minimum of 1 is required"),
        ({"order_weights": [{3: 1.0}]}, "'order_weights' should have orders"),
        ({"order_weights": [{1: -1.0}]}, "'order_weights[1]'"),
        ({"scaling": "relativ"}, "Did you mean 'relative'?"),
        ({"loss": "squared_error", "targets": np.zeros((60, 1)), "order_weights": [{2: 1.0}]}, "'order_weights'"),
        ({"loss": "squared_error", "targets": np.zeros((59, 1))}, "inconsistent numbers of samples"),
        ({"l2": [0.1, 0.2]}, "'l2'"),
    ],
)
def test_bad_input(change: dict, message: str) -> None:
    arguments = dict(zip(("features", "targets", "domains"), make_problem(2).columns, strict=True))
    with pytest.raises(ValueError, match=re.escape(message)):
        fit_path(**{**arguments, "order_weights": [{1: 1.0}], **change})


def test_the_way_is_observed_from_zero_and_every_setting_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("momentalign.linear._path._SUBSET", 100)
    problem = make_problem(2, n=2000)
    objective = AlignmentObjective(SortedRows.sort(*problem.columns, None, bias=False), 2, l2=0.01)
    seen: list[tuple[float, np.ndarray]] = []
    (solution,) = solve_path(objective, [{}], tol=1e-8, max_iter=100, watch=lambda *pair: seen.append(pair))
    values = [value for value, _ in seen]
    assert not seen[0][1].any()
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(np.log(2))
    assert values[-1] == solution.value
    ticks: list[int] = []
    solve_path(objective, [{}, {"gradient": 1.0}], tol=1e-4, max_iter=100, tick=lambda: ticks.append(1))
    assert len(ticks) == 2
