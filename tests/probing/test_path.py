import numpy as np
import pytest

from momentalign.linear import Rows, fit_path
from momentalign.probing import METHODS, find_method, project
from momentalign.probing._converged import bootstrap_weights, fit_converged
from momentalign.probing._group_dro import domain_losses, solve_minimax
from momentalign.probing._objectives import AlignmentObjective
from momentalign.probing._path import solve, solve_path
from tests.probing.problems import spurious_data

FEATURES = project(spurious_data(), isr_class=0)
TRAIN = FEATURES.train
COMMON = {"classes": 2, "l2": 0.01, "tol": 1e-7, "max_iter": 500}


def largest_setting(name: str) -> dict[str, float]:
    return {key: values[-2] for key, values in METHODS[name].grid.items()}


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.penalised])
def test_solutions_are_stationary_points_that_lower_the_objective(name: str) -> None:
    method, setting = find_method(name), largest_setting(name)
    (head,) = fit_converged(method, TRAIN, [setting], **COMMON)  # type: ignore[arg-type]
    assert head.converged
    objective = method.objective(Rows.sort(TRAIN.features, TRAIN.targets, TRAIN.domains, None, bias=False), 2, 0.01)
    (plain,) = fit_converged(find_method("erm-balanced"), TRAIN, [{}], **COMMON)  # type: ignore[arg-type]
    objective.set_weights(method.weights(setting))
    value, gradient = objective(head.coef.ravel())
    assert value == pytest.approx(head.objective)
    assert value < objective(plain.coef.ravel())[0]
    assert np.abs(gradient).max() < 1e-5


def test_alignment_is_what_the_linear_floor_fits() -> None:
    settings = [{"gradient_weight": g, "hessian_weight": h} for g in (1.0, 1e3) for h in (10.0, 1e4)]
    ours = fit_converged(find_method("cma"), TRAIN, settings, **COMMON)  # type: ignore[arg-type]
    orders = [{1: one["gradient_weight"], 2: one["hessian_weight"]} for one in settings]
    theirs = fit_path(
        TRAIN.features, TRAIN.targets, TRAIN.domains, orders, l2=0.01, scaling="parameters", bias=False, tol=1e-8
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.coef, other.coef, rtol=1e-4, atol=1e-6)


def test_a_path_ends_where_single_fits_end() -> None:
    """Convex penalties have one minimum, wherever one starts."""
    settings = [{"weight": weight} for weight in (1.0, 10.0, 100.0)]
    path = fit_converged(find_method("vrex"), TRAIN, settings, **COMMON)  # type: ignore[arg-type]
    for setting, head in zip(settings, path, strict=True):
        (alone,) = fit_converged(find_method("vrex"), TRAIN, [setting], **COMMON)  # type: ignore[arg-type]
        assert head.objective == pytest.approx(alone.objective, rel=1e-6)


def test_erm_counts_rows_alike_and_the_balanced_one_domains() -> None:
    keep = np.flatnonzero((TRAIN.domains == 0) | (np.arange(len(TRAIN.domains)) % 4 == 0))
    train = type(TRAIN)(TRAIN.features[keep], TRAIN.targets[keep], TRAIN.domains[keep], TRAIN.groups[keep])
    heads = {
        name: fit_converged(find_method(name), train, [{}], **COMMON)[0]  # type: ignore[arg-type]
        for name in ("erm", "erm-balanced", "coral")
    }
    domains = {"erm": None, "erm-balanced": train.domains}
    for name, column in domains.items():
        (expected,) = fit_path(train.features, train.targets, column, [{}], l2=0.01, bias=False, tol=1e-8)
        np.testing.assert_allclose(heads[name].coef, expected.coef, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(heads["coral"].coef, heads["erm"].coef)
    assert np.abs(heads["erm"].coef - heads["erm-balanced"].coef).max() > 0.01


def test_watchers_see_the_value_fall_and_every_setting_ticks() -> None:
    rows = Rows.sort(TRAIN.features, TRAIN.targets, TRAIN.domains, None, bias=False)
    seen: list[float] = []
    objective = AlignmentObjective(rows, 2, l2=0.01)
    found = solve(objective, np.zeros(6), tol=1e-8, max_iter=100, watch=lambda value, head: seen.append(value))
    assert seen == sorted(seen, reverse=True)
    assert seen[0] == pytest.approx(np.log(2))
    assert seen[-1] == found.value
    ticks: list[int] = []
    solve_path(objective, [{}, {"gradient": 1.0}], tol=1e-4, max_iter=100, tick=lambda: ticks.append(1))
    assert len(ticks) == 2


def test_iterations_that_run_out_are_said() -> None:
    (head,) = fit_converged(
        find_method("hutchinson"), TRAIN, [largest_setting("hutchinson")], classes=2, l2=0.0, tol=1e-12, max_iter=3
    )
    assert not head.converged


@pytest.mark.parametrize("number", [2, 3])
def test_group_dro_ends_at_the_saddle_point(number: int) -> None:
    rng = np.random.default_rng(number)
    X, y, e = rng.normal(size=(150, 3)), rng.integers(0, 2, 150), rng.integers(0, number, 150)
    X[:, 0] += y * (e + 0.5)
    rows = Rows.sort(X, y, e, None, bias=False)
    found, q = solve_minimax(rows, 2, l2=0.05, tol=1e-5, max_iter=500)
    assert found.converged
    objective = AlignmentObjective(rows, 2, l2=0.05).plain
    losses = domain_losses(objective, found.head)
    norm = 0.025 * float(np.square(found.head).sum())
    # No weighting of the domains has a larger least value: the dual of the same problem, by a grid.
    best = -np.inf
    for _ in range(60):
        trial = rng.dirichlet(np.ones(number) * 0.5)
        weights = trial[e] / np.bincount(e)[e]
        (head,) = fit_path(X, y, None, [{}], sample_weight=weights, l2=0.05, bias=False, tol=1e-8)
        best = max(best, head.objective)
    assert losses.max() + norm >= best - 1e-6
    assert losses.max() - q @ losses < 1e-5
    assert q.sum() == pytest.approx(1)
    balanced, _ = (fit_path(X, y, e, [{}], l2=0.05, bias=False, tol=1e-8)[0], None)
    assert losses.max() < domain_losses(objective, balanced.coef.ravel()).max() - 1e-4


def test_group_dro_of_three_classes_ends_in_few_moves() -> None:
    train = project(spurious_data(300, 60, classes=3), isr_class=0).train
    (head,) = fit_converged(find_method("groupdro"), train, [{}], classes=3, l2=0.01, tol=1e-7, max_iter=100)
    assert head.converged


def test_bootstraps_keep_every_domain_and_class() -> None:
    few = type(TRAIN)(TRAIN.features[:4], np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.zeros(4, dtype=np.int64))
    for seed in range(30):
        weights = bootstrap_weights(few, seed)
        assert weights.sum() == 4
        assert len(np.unique(few.domains[weights > 0])) == len(np.unique(few.targets[weights > 0])) == 2
    assert not np.array_equal(bootstrap_weights(TRAIN, 0), bootstrap_weights(TRAIN, 1))
