import re

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from momentalign.linear import AlignmentObjective, SortedRows, fit_head, fit_path, solve_path
from tests.linear.problems import Problem, make_problem, reference


def rows_of(problem: Problem) -> tuple:
    return problem.features, problem.targets, problem.domains


@pytest.mark.parametrize("scaling", ["none", "classes", "parameters", "relative"])
@pytest.mark.parametrize("classes", [1, 2, 4])
def test_the_gradient_vanishes_at_the_solution(classes: int, scaling: str) -> None:
    problem, weights = make_problem(classes), {1: 1.0, 2: 2.0}
    head = fit_head(*rows_of(problem), weights, loss=problem.loss, scaling=scaling, tol=1e-8)
    assert head.converged
    W = np.column_stack([head.coef, head.intercept])
    value, gradient = reference(problem, W, weights, l2=1e-3, scaling=scaling, bias=True)
    assert np.abs(gradient).max() < 1e-6
    assert head.objective == pytest.approx(value)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_path_equals_separate_fits(classes: int) -> None:
    problem = make_problem(classes, n=200)
    settings = [{1: 3.0}, {}, {1: 0.3, 2: 0.3}, {2: 1.0}, {1: 0.0, 2: 3.0}]
    path = fit_path(*rows_of(problem), settings, l2=0.1, tol=1e-9)
    assert [head.order_weights for head in path] == settings
    for setting, head in zip(settings, path, strict=True):
        alone = fit_head(*rows_of(problem), setting, l2=0.1, tol=1e-9)
        np.testing.assert_allclose(head.coef, alone.coef, atol=1e-6)
        assert head.objective == pytest.approx(alone.objective, rel=1e-9)


def test_a_first_look_at_some_rows_does_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem(3, n=2000)
    direct = fit_head(*rows_of(problem), {1: 1.0, 2: 1.0}, tol=1e-8)
    monkeypatch.setattr("momentalign.linear._path._SUBSET", 100)
    looked = fit_head(*rows_of(problem), {1: 1.0, 2: 1.0}, tol=1e-8)
    np.testing.assert_allclose(looked.coef, direct.coef, atol=1e-6)


@pytest.mark.parametrize(("dense", "square"), [(1, 4096), (1, 1)])
def test_cheaper_preconditioners_find_the_same_solution(
    dense: int, square: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make_problem(3, n=200)
    expected = fit_head(*rows_of(problem), {1: 1.0, 2: 1.0}, l2=0.1, tol=1e-8)
    monkeypatch.setattr("momentalign.linear._alignment_objective._DENSE", dense)
    monkeypatch.setattr("momentalign.linear._alignment_objective._SQUARE", square)
    found = fit_head(*rows_of(problem), {1: 1.0, 2: 1.0}, l2=0.1, tol=1e-8)
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
    problem = make_problem(2)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 iterations"):
        head = fit_head(*rows_of(problem), {1: 1.0}, max_iter=1, tol=1e-12)
    assert not head.converged


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"domains": np.zeros(59, int)},
            "'domains' should have one entry per row of 'features' (60), but has shape (59,)",
        ),
        ({"features": np.zeros((0, 4)), "targets": np.zeros(0, int), "domains": None}, "n and d at least 1"),
        ({"order_weights": [{3: 1.0}]}, "'order_weights' should have orders 1 and 2, but has 3"),
        ({"order_weights": [{1: -1.0}]}, "'order_weights[1]' should be finite and not below 0"),
        ({"scaling": "relativ"}, "Did you mean 'relative'?"),
        ({"loss": "logistic", "classes": 3}, "takes two classes, but there are 3"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_bad_input(change: dict, message: str) -> None:
    problem = make_problem(2)
    arguments = dict(zip(("features", "targets", "domains"), rows_of(problem), strict=True))
    with pytest.raises(ValueError, match=re.escape(message)):
        fit_path(**{**arguments, "order_weights": [{1: 1.0}], **change})


@pytest.mark.parametrize("classes", [2, 3])
def test_an_l2_for_each_setting_gives_the_fits_of_each_alone(classes: int) -> None:
    problem = make_problem(classes)
    settings = [{}, {1: 1.0}, {2: 3.0}, {}, {1: 1.0}]
    l2s = [0.1, 0.1, 1.0, 1.0, 0.01]
    heads = fit_path(*rows_of(problem), settings, classes=classes, l2=l2s, tol=1e-8)
    for setting, l2, head in zip(settings, l2s, heads, strict=True):
        alone = fit_head(*rows_of(problem), setting, classes=classes, l2=l2, tol=1e-8)
        np.testing.assert_allclose(head.coef, alone.coef, atol=1e-5)
        assert head.objective == pytest.approx(alone.objective)
    with pytest.raises(ValueError, match="one for each of the 5 settings, but has 2"):
        fit_path(*rows_of(problem), settings, l2=[0.1, 0.2])


def test_the_way_is_observed_and_every_setting_ticks() -> None:
    problem = make_problem(2)
    objective = AlignmentObjective(SortedRows.sort(*rows_of(problem), None, bias=False), 2, l2=0.01)
    seen: list[float] = []
    (solution,) = solve_path(objective, [{}], tol=1e-8, max_iter=100, watch=lambda value, head: seen.append(value))
    assert seen == sorted(seen, reverse=True)
    assert seen[0] == pytest.approx(np.log(2))
    assert seen[-1] == solution.value
    ticks: list[int] = []
    solve_path(objective, [{}, {"gradient": 1.0}], tol=1e-4, max_iter=100, tick=lambda: ticks.append(1))
    assert len(ticks) == 2


def test_a_fit_that_is_watched_starts_from_zero_with_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("momentalign.linear._path._SUBSET", 100)
    objective = AlignmentObjective(SortedRows.sort(*rows_of(make_problem(2, n=2000)), None, bias=False), 2, l2=0.01)
    seen: list[np.ndarray] = []
    solve_path(objective, [{}], tol=1e-4, max_iter=100, watch=lambda value, head: seen.append(head))
    assert not seen[0].any()
