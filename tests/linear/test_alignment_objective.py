import tracemalloc

import numpy as np
import pytest
import torch

from momentalign.linear import AlignmentObjective, SortedRows, fit_head
from momentalign.linear._spreads import direct_spread, kernel_spread
from tests.linear.problems import Problem, make_problem, reference
from tests.references import differentiated, domain_losses

SCALINGS = ("none", "classes", "parameters", "relative")
each_problem = pytest.mark.parametrize("classes", [1, 2, 3, 5], ids=["logistic", "binary", "three", "five"])


def make_objective(problem: Problem, weights: dict[int, float], bias: bool = True, **options: object):
    rows = SortedRows.sort(problem.features, problem.targets, problem.domains, None, bias=bias)
    options = {"l2": 0.1, "scaling": "none", "loss": problem.loss, **options}
    objective = AlignmentObjective(rows, max(problem.classes, 2), **options)
    objective.set_weights(by_name(weights))
    return objective


def by_name(weights: dict[int, float]) -> dict[str, float]:
    return {("gradient", "hessian")[order - 1]: weight for order, weight in weights.items()}


def assert_agrees(objective: AlignmentObjective, problem: Problem, weights: dict[int, float], scaling: str) -> None:
    head = np.random.default_rng(1).normal(size=objective.shape)
    value, gradient = objective(head.ravel())
    expected, by_head = reference(problem, head, weights, l2=0.1, scaling=scaling, bias=objective.rows.bias)
    assert value == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(gradient, by_head.ravel(), rtol=0, atol=1e-10 * np.abs(by_head).max())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("weights", [{1: 1.0}, {2: 1.0}, {1: 0.7, 2: 1.3}], ids=str)
@each_problem
def test_value_and_gradient_are_those_of_the_penalty(classes: int, weights: dict, scaling: str, bias: bool) -> None:
    problem = make_problem(classes)
    assert_agrees(make_objective(problem, weights, bias, scaling=scaling), problem, weights, scaling)


@pytest.mark.parametrize("order", [1, 2])
@each_problem
def test_kernel_and_direct_spreads_agree(classes: int, order: int) -> None:
    problem = make_problem(classes)
    for make in (direct_spread, kernel_spread):
        objective = make_objective(problem, {}, scaling="relative")
        objective._spreads[order] = make(order, objective.loss, objective.rows)
        objective.set_weights(by_name({order: 2.0}))
        assert_agrees(objective, problem, {order: 2.0}, "relative")


@each_problem
def test_blocks_do_not_change_anything(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, weights = make_problem(classes, n=1500), {1: 1.0, 2: 1.0}
    head = np.ones(make_objective(problem, weights).shape).ravel()
    whole = make_objective(problem, weights, scaling="relative")(head)
    monkeypatch.setattr("momentalign.linear._rows._NUMBERS", 1)
    pieces = make_objective(problem, weights, scaling="relative")
    assert max(part.stop - part.start for part in pieces.rows.parts) > 512
    value, gradient = pieces(head)
    assert value == pytest.approx(whole[0], rel=1e-12)
    np.testing.assert_allclose(gradient, whole[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scaling", SCALINGS)
@each_problem
def test_sample_weights_are_repeated_rows(classes: int, scaling: str) -> None:
    problem, weights = make_problem(classes), {1: 1.0, 2: 1.0}
    times = np.random.default_rng(2).integers(0, 4, len(problem.targets))
    columns = (problem.features, problem.targets, problem.domains)
    weighted = SortedRows.sort(*columns, 0.3 * times, bias=True)
    repeated = SortedRows.sort(*(np.repeat(column, times, axis=0) for column in columns), None, bias=True)
    values = []
    for rows in (weighted, repeated):
        objective = AlignmentObjective(rows, max(classes, 2), l2=0.1, scaling=scaling, loss=problem.loss)
        objective.set_weights(by_name(weights))
        values.append(objective(np.linspace(-1, 1, np.prod(objective.shape))))
    assert values[0][0] == pytest.approx(values[1][0], rel=1e-12)
    np.testing.assert_allclose(values[0][1], values[1][1], rtol=1e-9, atol=1e-12)


@each_problem
def test_one_domain_has_nothing_to_align(classes: int) -> None:
    problem = make_problem(classes, domains=1)
    plain, aligned = (make_objective(problem, weights) for weights in ({}, {1: 5.0, 2: 5.0}))
    head = np.ones(plain.shape).ravel()
    assert plain(head)[0] == aligned(head)[0]


@pytest.mark.parametrize("scale", [1e3, 1e6])
@each_problem
def test_saturated_logits_stay_finite(classes: int, scale: float) -> None:
    problem = make_problem(classes)
    objective = make_objective(problem, {1: 1.0, 2: 1.0}, scaling="relative")
    value, gradient = objective(scale * np.random.default_rng(3).normal(size=objective.shape).ravel())
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_features_of_zero_count_as_aligned() -> None:
    problem = make_problem(3)
    rows = SortedRows.sort(0 * problem.features, problem.targets, problem.domains, None, bias=False)
    objective = AlignmentObjective(rows, 3, l2=0.1, scaling="relative")
    plain = objective(np.ones(12))
    objective.set_weights({"gradient": 1.0, "hessian": 1.0})
    weighted = objective(np.ones(12))
    assert weighted[0] == plain[0]
    assert (weighted[1] == plain[1]).all()


def test_rows_of_weight_zero_are_as_if_absent() -> None:
    problem = make_problem(2)
    columns = (problem.features.copy(), problem.targets, problem.domains)
    kept = (np.arange(len(problem.targets)) % 3 > 0) & (problem.domains != problem.domains[0])
    columns[0][~kept] = np.nan
    weighted = SortedRows.sort(*columns, np.where(kept, 2.0, 0.0), bias=True)
    without = SortedRows.sort(*(column[kept] for column in columns), None, bias=True)
    assert weighted.number == without.number == 2
    for name in ("X", "targets", "shares", "starts"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(without, name))


def test_rows_are_sorted_and_their_shares_sum_to_one() -> None:
    problem = make_problem(2)
    rows = SortedRows.sort(problem.features, problem.targets, problem.domains, None, bias=True)
    assert rows.number == 3
    assert [len(block) for block in np.split(rows.targets, rows.starts[1:-1])] == np.unique(
        problem.domains, return_counts=True
    )[1].tolist()
    np.testing.assert_allclose(np.add.reduceat(rows.shares, rows.starts[:-1]), 1)
    thinned = rows.thinned(7)
    assert thinned.number == 3
    np.testing.assert_allclose(np.add.reduceat(thinned.shares, thinned.starts[:-1]), 1)


def domain_hessians(problem: Problem, head: np.ndarray) -> np.ndarray:
    """Hessians of the domains' losses by the flattened head, by automatic differentiation."""
    features, targets, domains = map(torch.as_tensor, (problem.features, problem.targets, problem.domains))

    def losses(flat: torch.Tensor) -> torch.Tensor:
        W = flat.reshape(head.shape)
        full = torch.cat([-W / 2, W / 2]) if problem.classes == 2 else W
        return domain_losses(problem.loss, features, full, targets, domains)

    return differentiated(2, losses)(torch.as_tensor(head).flatten()).numpy()


@pytest.mark.parametrize("weights", [{}, {1: 1.0}, {2: 1.0}], ids=str)
@each_problem
def test_curvatures_are_the_domains_hessians(classes: int, weights: dict) -> None:
    problem = make_problem(classes)
    objective = make_objective(problem, weights)
    head = np.random.default_rng(3).normal(size=objective.shape)
    expected = domain_hessians(problem, head)
    np.testing.assert_allclose(objective.curvatures(head.ravel()), expected, atol=1e-12)
    np.testing.assert_allclose(objective.curvatures(head.ravel(), pooled=True)[0], expected.mean(0), atol=1e-12)


@pytest.mark.parametrize(("domains", "kept"), [(1, {}), (2, {2: 3.0})])
def test_terms_without_weight_are_not_computed(domains: int, kept: dict[int, float]) -> None:
    assert make_objective(make_problem(2, domains=domains), {1: 0.0, 2: 3.0}).weights == kept


@each_problem
def test_large_heads_have_the_mean_block_of_their_curvature(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem(classes)
    objective = make_objective(problem, {})
    outputs, d = objective.shape
    head = np.random.default_rng(3).normal(size=objective.shape)
    H = domain_hessians(problem, head).reshape(-1, outputs, d, outputs, d)
    blocks = np.einsum("kaiaj->kij", H) / outputs
    monkeypatch.setattr("momentalign.linear._alignment_objective._DENSE", 0)
    np.testing.assert_allclose(objective.curvatures(head.ravel()), blocks, atol=1e-12)
    monkeypatch.setattr("momentalign.linear._alignment_objective._SQUARE", d)
    np.testing.assert_allclose(objective.curvatures(head.ravel()), blocks, atol=1e-12)
    monkeypatch.setattr("momentalign.linear._alignment_objective._SQUARE", d - 1)
    np.testing.assert_allclose(objective.curvatures(head.ravel()), np.einsum("kii->ki", blocks), atol=1e-12)


@pytest.mark.parametrize("bias", [True, False])
@each_problem
def test_coordinates_are_those_of_gauss_and_newton(classes: int, bias: bool) -> None:
    problem = make_problem(classes)
    if not bias:
        problem = Problem(classes, problem.features[:, :3], problem.targets, problem.domains)
    objective = make_objective(problem, {1: 3.0}, bias=bias, scaling="classes")
    head = np.random.default_rng(4).normal(size=objective.shape)
    objective(head.ravel())
    H = domain_hessians(problem, head)
    outputs, d = objective.shape
    spared = np.ones(d)
    spared[d - bias :] = 0.0
    # Of two classes the one logit is measured as two, with half of each: twice the spread, divided by the classes.
    divisor = 1 if classes == 2 else classes
    deviations = H - H.mean(0)
    P = H.mean(0) + np.diag(np.tile(0.1 * spared, outputs)) + 2 * 3.0 / divisor * (deviations @ deviations).mean(0)
    change = np.random.default_rng(5).normal(size=objective.shape)
    if outputs > 1:
        change -= change.mean(0)  # one vector added to all logits' heads changes nothing
    chosen = objective.coordinates(head.ravel())
    step = chosen.back(chosen.back(change.ravel(), gradient=True))
    np.testing.assert_allclose(step, np.linalg.lstsq(P, change.ravel(), rcond=1e-12)[0], rtol=1e-6)


@pytest.mark.parametrize("rows", [8, 60])  # domains of fewer rows than features, and of more
@pytest.mark.parametrize("diagonal", [True, False])
@each_problem
def test_coordinates_of_large_heads_are_blocks_or_diagonals(
    classes: int, diagonal: bool, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make_problem(classes, n=rows)
    objective = make_objective(problem, {1: 3.0}, scaling="classes")
    outputs, d = objective.shape
    head = np.random.default_rng(4).normal(size=objective.shape)
    objective(head.ravel())
    H = np.einsum("kaiaj->kij", domain_hessians(problem, head).reshape(-1, outputs, d, outputs, d)) / outputs
    if diagonal:
        H = H * np.eye(d)
        monkeypatch.setattr("momentalign.linear._alignment_objective._SQUARE", d - 1)
    for limit in ("_DENSE", "_DENSE_SQUARES"):
        monkeypatch.setattr(f"momentalign.linear._alignment_objective.{limit}", 0)
    deviations = H - H.mean(0)
    weight = 2 * 3.0 / (1 if classes == 2 else classes)
    P = H.mean(0) + np.diag(np.append(np.full(d - 1, 0.1), 0.0)) + weight * (deviations @ deviations).mean(0)
    change = np.random.default_rng(5).normal(size=objective.shape)
    chosen = objective.coordinates(head.ravel())
    step = chosen.back(chosen.back(change.ravel(), gradient=True)).reshape(objective.shape)
    np.testing.assert_allclose(step, np.linalg.solve(P, change.T).T, rtol=1e-6)


@pytest.mark.parametrize("weights", [{}, {1: 1.0}, {1: 1.0, 2: 1.0}], ids=str)
@pytest.mark.parametrize("classes", [2, 3])
def test_memory_does_not_grow_with_domains_times_features_squared(
    classes: int, weights: dict[int, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("momentalign.linear._spreads.KERNEL_ENTRIES", 300**2)
    rng = np.random.default_rng(0)
    X, y, domains = rng.normal(size=(300, 100)), rng.integers(0, classes, 300), np.arange(300)
    tracemalloc.start()
    fit_head(X, y, domains, weights, classes=classes, l2=0.1, tol=1e-3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 300 * 100**2 / 2  # numbers of one matrix for each domain, 24 MB


@pytest.mark.parametrize(("size", "rows"), [(15, 15), (16, None)])
def test_a_subset_has_a_quarter_of_the_rows_at_most(size: int, rows: int | None) -> None:
    subset = make_objective(make_problem(2, n=60), {}).subset(size)
    assert (None if subset is None else len(subset.rows.X)) == rows
