from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.optimize import check_grad

import momentalign
from momentalign.linear import Rows
from momentalign.penalties import DomainPenalty
from momentalign.probing import _terms
from momentalign.probing._objectives import AlignmentObjective, Spreads, TermObjective

CASES: list[tuple[_terms.Terms, DomainPenalty]] = [
    (_terms.irm, momentalign.IRM(bias=False)),
    (_terms.vrex, momentalign.VREx()),
    (_terms.fishr, momentalign.Fishr(bias=False, momentum=0.0)),
    (_terms.hgp, momentalign.HGP(bias=False)),
    (_terms.hutchinson, momentalign.Hutchinson(bias=False)),
]
each_case = pytest.mark.parametrize(("terms", "penalty"), CASES, ids=[terms.__name__ for terms, _ in CASES])
each_number = pytest.mark.parametrize("classes", [2, 3])


def problem(classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(classes)
    X, y, e = rng.normal(size=(40, 4)), rng.integers(0, classes, 40), rng.integers(0, 3, 40)
    W = rng.normal(size=(1 if classes == 2 else classes, 4))
    return X, y, e, W


def batch(X: np.ndarray, y: np.ndarray, e: np.ndarray, W: np.ndarray) -> tuple[torch.Tensor, ...]:
    Z = torch.tensor(X @ W.T)
    logits = torch.cat([-Z / 2, Z / 2], 1) if len(W) == 1 else Z
    return torch.tensor(X), logits, torch.tensor(y), torch.tensor(e)


@each_case
@each_number
def test_terms_over_all_rows_are_those_of_the_penalties(
    terms: _terms.Terms, penalty: DomainPenalty, classes: int
) -> None:
    X, y, e, W = problem(classes)
    found = TermObjective(Rows.sort(X, y, e, None, bias=False), classes, l2=0.0, terms=terms).terms(W.ravel())
    expected = {name: float(value) for name, value in penalty.terms(*batch(X, y, e, W)).items()}
    assert found == pytest.approx(expected, rel=1e-12)


@each_case
def test_a_row_that_counts_twice_is_two_rows(terms: _terms.Terms, penalty: DomainPenalty) -> None:
    X, y, e, W = problem(3)
    times = np.random.default_rng(0).integers(0, 3, len(X))
    again = np.repeat(np.arange(len(X)), times)
    weighted = TermObjective(Rows.sort(X, y, e, times.astype(float), bias=False), 3, l2=0.1, terms=terms)
    repeated = TermObjective(Rows.sort(X[again], y[again], e[again], None, bias=False), 3, l2=0.1, terms=terms)
    for objective in (weighted, repeated):
        objective.set_weights(dict.fromkeys(objective.terms(W.ravel()), 2.0))
    assert weighted(W.ravel())[0] == pytest.approx(repeated(W.ravel())[0], rel=1e-12)
    np.testing.assert_allclose(weighted(W.ravel())[1], repeated(W.ravel())[1], rtol=1e-10, atol=1e-12)


@each_case
@each_number
def test_value_and_gradient_belong_together(terms: _terms.Terms, penalty: DomainPenalty, classes: int) -> None:
    X, y, e, W = problem(classes)
    objective = TermObjective(Rows.sort(X, y, e, None, bias=False), classes, l2=0.1, terms=terms)
    plain = objective(W.ravel())[0]
    weights = dict.fromkeys(objective.terms(W.ravel()), 3.0)
    objective.set_weights(weights)
    assert objective(W.ravel())[0] == pytest.approx(plain + 3.0 * sum(objective.terms(W.ravel()).values()))
    assert plain == pytest.approx(objective.plain(W.ravel())[0])
    assert check_grad(lambda head: objective(head)[0], lambda head: objective(head)[1], W.ravel()) < 1e-5


@each_case
def test_coordinates_are_the_gauss_newton_curvature(terms: _terms.Terms, penalty: DomainPenalty) -> None:
    """Against J'J by finite differences of the weighted vectors, from the penalty's value alone."""
    X, y, e, W = problem(2)
    objective = TermObjective(Rows.sort(X, y, e, None, bias=False), 2, l2=0.1, terms=terms)
    objective.set_weights(dict.fromkeys(objective.terms(W.ravel()), 2.0))
    curvature = objective._penalty_curvature(W.ravel())
    np.testing.assert_allclose(curvature, curvature.T, atol=1e-12)
    assert np.linalg.eigvalsh(curvature).min() > -1e-10

    def penalised(head: np.ndarray) -> float:
        return 2.0 * sum(objective.terms(head).values())

    # Where the penalty is small its curvature is J'J; near zero of the vectors' deviations the rest vanishes. Along a
    # direction: the second difference is at most J'J plus the residual part, and equal to it for linear vectors.
    step = 1e-4 * np.random.default_rng(0).normal(size=W.size)
    second = penalised(W.ravel() + step) - 2 * penalised(W.ravel()) + penalised(W.ravel() - step)
    residual = abs(second - step @ curvature @ step)
    assert residual < 20 * np.sqrt(penalised(W.ravel())) * float(step @ step) + 1e-12


def test_spreads_are_those_of_moment_alignment() -> None:
    for classes in (2, 3):
        X, y, e, W = problem(classes)
        rows = Rows.sort(X, y, e, None, bias=False)
        found = Spreads(AlignmentObjective(rows, classes, l2=0.0).plain, (1, 2, 3))(W.ravel())
        penalty = momentalign.MomentAlignment({1: 1.0, 2: 1.0, 3: 1.0}, bias=False, scaling="parameters")
        expected = {name: float(value) for name, value in penalty.terms(*batch(X, y, e, W)).items()}
        assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("make", [lambda rows: AlignmentObjective(rows, 2, l2=0.1)])
def test_alignment_weights_go_by_the_names_of_terms(make: Callable[[Rows], AlignmentObjective]) -> None:
    X, y, e, W = problem(2)
    objective = make(Rows.sort(X, y, e, None, bias=False))
    plain = objective(W.ravel())[0]
    spreads = Spreads(objective.plain)(W.ravel())
    objective.set_weights({"gradient": 10.0, "hessian": 100.0})
    assert objective(W.ravel())[0] == pytest.approx(plain + 10 * spreads["gradient"] + 100 * spreads["hessian"])
