import tracemalloc

import numpy as np
import pytest
import torch

from momentalign.linear import AlignedLeastSquares, AlignmentObjective, SortedRows, fit_head
from momentalign.linear._spreads import direct_spread, kernel_spread
from tests.linear.problems import SCALINGS, Problem, make_problem, reference
from tests.references import differentiated, domain_losses

OBJECTIVE = "momentalign.linear._objective"
each_problem = pytest.mark.parametrize("classes", [2, 3, 5])
each_loss = pytest.mark.parametrize("classes", [0, 2, 3, 5])


def make_objective(problem: Problem, weights: dict[int, float], bias: bool = True, scaling: str = "none", **options):
    rows = SortedRows.sort(*problem.columns, options.pop("sample_weight", None), bias=bias)
    if problem.classes == 0:
        squares = AlignedLeastSquares(rows, scaling=scaling)
        squares.set_weights(weights.get(1, 0.0), 0.1)
        return squares
    objective = AlignmentObjective(rows, problem.classes, l2=0.1, scaling=scaling)
    objective.set_weights({("gradient", "hessian")[order - 1]: weight for order, weight in weights.items()})
    return objective


def random_head(objective: AlignmentObjective) -> np.ndarray:
    return np.random.default_rng(1).normal(size=objective.shape)


def assert_agrees(objective: AlignmentObjective, problem: Problem, weights: dict[int, float], scaling: str) -> None:
    head = random_head(objective)
    value, gradient = objective(head.ravel())
    expected, by_head = reference(problem, head, weights, l2=0.1, scaling=scaling, bias=objective.rows.bias)
    assert value == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(gradient, by_head.ravel(), rtol=0, atol=1e-10 * np.abs(by_head).max())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("weights", [{1: 1.0}, {2: 1.0}, {1: 0.7, 2: 1.3}], ids=str)
@each_loss
def test_value_and_gradient_are_those_of_the_penalty(classes: int, weights: dict, scaling: str, bias: bool) -> None:
    problem, weights = make_problem(classes), weights if classes else {1: 2.0}
    assert_agrees(make_objective(problem, weights, bias, scaling), problem, weights, scaling)


@pytest.mark.parametrize("order", [1, 2])
@each_problem
def test_kernel_and_direct_spreads_agree(classes: int, order: int) -> None:
    problem = make_problem(classes)
    for make in (direct_spread, kernel_spread):
        objective = make_objective(problem, {order: 2.0}, scaling="relative")
        objective._spreads[("gradient", "hessian")[order - 1]] = make(order, objective.loss, objective.rows)
        assert_agrees(objective, problem, {order: 2.0}, "relative")


@each_problem
def test_blocks_do_not_change_anything(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, weights = make_problem(classes, n=1500), {1: 1.0, 2: 1.0}
    monkeypatch.setattr("momentalign.linear._rows._NUMBERS", 1)
    pieces = make_objective(problem, weights, scaling="relative")
    assert max(part.stop - part.start for part in pieces.rows.parts) > 512
    assert_agrees(pieces, problem, weights, "relative")


@pytest.mark.parametrize("scaling", SCALINGS)
@each_loss
def test_sample_weights_are_repeated_rows(classes: int, scaling: str) -> None:
    problem, weights = make_problem(classes), {1: 1.0, 2: 1.0}
    times = np.random.default_rng(2).integers(0, 4, len(problem.targets))
    weighted = make_objective(problem, weights, scaling=scaling, sample_weight=0.3 * times)
    repeated = make_objective(problem.repeated(times), weights, scaling=scaling)
    head = random_head(weighted).ravel()
    assert weighted(head)[0] == pytest.approx(repeated(head)[0], rel=1e-12)
    np.testing.assert_allclose(weighted(head)[1], repeated(head)[1], rtol=1e-9, atol=1e-12)


@each_loss
def test_one_domain_has_nothing_to_align(classes: int) -> None:
    problem = make_problem(classes, domains=1)
    plain, aligned = (make_objective(problem, weights, scaling="relative") for weights in ({}, {1: 5.0, 2: 5.0}))
    assert plain(random_head(plain).ravel())[0] == aligned(random_head(plain).ravel())[0]


@pytest.mark.parametrize("scale", [1e3, 1e6])
@each_problem
def test_saturated_logits_stay_finite(classes: int, scale: float) -> None:
    objective = make_objective(make_problem(classes), {1: 1.0, 2: 1.0}, scaling="relative")
    value, gradient = objective(scale * random_head(objective).ravel())
    assert np.isfinite([value, *gradient]).all()


def test_features_of_zero_count_as_aligned() -> None:
    problem = make_problem(3)
    nothing = Problem(3, 0 * problem.features, problem.targets, problem.domains)
    plain, weighted = (make_objective(nothing, weights, False, "relative") for weights in ({}, {1: 1.0, 2: 1.0}))
    head = np.ones(12)
    assert weighted(head)[0] == plain(head)[0]
    np.testing.assert_array_equal(weighted(head)[1], plain(head)[1])


def test_rows_of_weight_zero_are_as_if_absent() -> None:
    problem = make_problem(2)
    kept = (np.arange(60) % 3 > 0) & (problem.domains != problem.domains[0])
    moved = np.where(kept[:, None], problem.features, np.nan)
    weighted = SortedRows.sort(moved, *problem.columns[1:], np.where(kept, 2.0, 0.0), bias=True)
    without = SortedRows.sort(*problem.repeated(kept).columns, None, bias=True)
    assert weighted.number == without.number == 2
    for name in ("X", "targets", "shares", "starts"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(without, name))


def test_rows_are_sorted_and_their_shares_sum_to_one() -> None:
    problem = make_problem(2)
    rows = SortedRows.sort(*problem.columns, None, bias=True)
    assert rows.sizes.tolist() == np.unique(problem.domains, return_counts=True)[1].tolist()
    for some in (rows, rows.thinned(7)):
        assert some.number == 3
        np.testing.assert_allclose(np.add.reduceat(some.shares, some.starts[:-1]), 1)


def domain_hessians(problem: Problem, head: np.ndarray) -> np.ndarray:
    """Hessians of the domains' losses by the flattened head, by automatic differentiation."""
    features, targets, domains = map(torch.as_tensor, problem.columns)

    def losses(flat: torch.Tensor) -> torch.Tensor:
        W = flat.reshape(head.shape)
        full = torch.cat([-W / 2, W / 2]) if problem.classes == 2 else W
        return domain_losses(problem.loss, features, full, targets, domains)

    return differentiated(2, losses)(torch.as_tensor(head).flatten()).numpy()


@each_problem
def test_curvature_is_the_mean_of_the_hessians_or_of_their_blocks(
    classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make_problem(classes)
    objective = make_objective(problem, {})
    (outputs, d), head = objective.shape, random_head(objective)
    H = domain_hessians(problem, head).mean(0)
    blocks = np.einsum("aiaj->ij", H.reshape(outputs, d, outputs, d)) / outputs
    np.testing.assert_allclose(objective.curvature(head.ravel()), H, atol=1e-12)
    monkeypatch.setattr(f"{OBJECTIVE}.DENSE", 0)
    for square, expected in ((d, blocks), (d - 1, blocks.diagonal())):
        monkeypatch.setattr(f"{OBJECTIVE}.SQUARE", square)
        np.testing.assert_allclose(objective.curvature(head.ravel()), expected, atol=1e-12)


@pytest.mark.parametrize(("domains", "kept"), [(1, {}), (2, {"hessian": 3.0})])
def test_terms_without_weight_are_not_computed(domains: int, kept: dict[str, float]) -> None:
    assert make_objective(make_problem(2, domains=domains), {1: 0.0, 2: 3.0}).weights == kept


@pytest.mark.parametrize("rows", [8, 60])  # domains of fewer rows than features, and of more
@pytest.mark.parametrize("form", ["matrix", "blocks", "diagonal"])
@pytest.mark.parametrize("bias", [True, False])
@each_problem
def test_coordinates_are_those_of_gauss_and_newton(
    classes: int, bias: bool, form: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make_problem(classes, n=rows, d=3 + (not bias))
    objective = make_objective(problem, {1: 3.0}, bias, "classes")
    (outputs, d), head = objective.shape, random_head(objective)
    objective(head.ravel())
    H = domain_hessians(problem, head)
    if form != "matrix":
        H = np.einsum("kaiaj->kij", H.reshape(-1, outputs, d, outputs, d)) / outputs
        monkeypatch.setattr("momentalign.linear._alignment_objective._DENSE_SQUARES", 0)
    if form == "diagonal":
        H = H * np.eye(d)
        monkeypatch.setattr(f"{OBJECTIVE}.SQUARE", d - 1)
    spared = np.ones(d)
    spared[d - bias :] = 0.0
    # Of two classes the one logit is measured as two, with half of each: twice the spread, divided by the classes.
    weight = 2 * 3.0 / (1 if classes == 2 else classes)
    deviations = H - H.mean(0)
    repeats = len(H[0]) // d
    P = H.mean(0) + np.diag(np.tile(0.1 * spared, repeats)) + weight * (deviations @ deviations).mean(0)
    change = np.random.default_rng(5).normal(size=objective.shape)
    if outputs > 1:
        change -= change.mean(0)  # one vector added to all logits' heads changes nothing
    chosen = objective.coordinates(head.ravel())
    step = chosen.back(chosen.back(change.ravel(), gradient=True))
    expected = np.linalg.lstsq(np.kron(np.eye(outputs * d // len(P)), P), change.ravel(), rcond=1e-12)[0]
    np.testing.assert_allclose(step, expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("scaling", ["none", "relative"])
@pytest.mark.parametrize("weights", [{}, {1: 1.0}, {1: 1.0, 2: 1.0}], ids=str)
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_memory_does_not_grow_with_domains_times_features_squared(
    classes: int, weights: dict[int, float], scaling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, problem = np.random.default_rng(0), make_problem(classes, n=300)
    X, weights = rng.normal(size=(300, 100)), weights if classes else {1: 1.0}
    columns, options = (X, problem.targets, np.arange(300)), {"loss": problem.loss, "scaling": scaling, "l2": 0.1}
    expected = fit_head(*columns, weights, **options, tol=1e-7)
    monkeypatch.setattr("momentalign.linear._spreads.KERNEL_ENTRIES", 300**2)
    monkeypatch.setattr("momentalign.linear._least_squares._HELD", 100_000)
    tracemalloc.start()
    found = fit_head(*columns, weights, **options, tol=1e-7)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 300 * 100**2 / 2  # numbers of one matrix for each domain, 24 MB
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-4)


@pytest.mark.parametrize(("size", "rows"), [(15, 15), (16, None)])
def test_a_subset_has_a_quarter_of_the_rows_at_most(size: int, rows: int | None) -> None:
    subset = make_objective(make_problem(2, n=60), {}).subset(size)
    assert (None if subset is None else len(subset.rows.X)) == rows
