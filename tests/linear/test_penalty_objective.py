import numpy as np
import pytest
import torch
from scipy.optimize import check_grad

from momentalign import HGP, IRM, Fishr, Hutchinson, VREx
from momentalign.linear import PenaltyObjective, SortedRows
from momentalign.penalties import DomainPenalty

PENALTIES = [IRM(bias=False), VREx(), Fishr(bias=False, momentum=0.0), HGP(bias=False), Hutchinson(bias=False)]
each_penalty = pytest.mark.parametrize("penalty", PENALTIES, ids=lambda penalty: type(penalty).__name__)
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


def weighted(objective: PenaltyObjective, head: np.ndarray, weight: float) -> PenaltyObjective:
    objective.set_weights(dict.fromkeys(objective.terms(head), weight))
    return objective


@each_penalty
@each_number
def test_terms_over_all_rows_are_those_of_the_penalty(penalty: DomainPenalty, classes: int) -> None:
    X, y, e, W = problem(classes)
    terms = PenaltyObjective(SortedRows.sort(X, y, e, None, bias=False), classes, penalty, l2=0.0).terms(W.ravel())
    expected = {name: float(value) for name, value in penalty.terms(*batch(X, y, e, W)).items()}
    assert terms == pytest.approx(expected, rel=1e-12)


@each_penalty
def test_a_row_that_counts_twice_is_two_rows(penalty: DomainPenalty) -> None:
    X, y, e, W = problem(3)
    times = np.random.default_rng(0).integers(0, 3, len(X))
    again = np.repeat(np.arange(len(X)), times)
    counted = SortedRows.sort(X, y, e, times.astype(float), bias=False)
    repeated = SortedRows.sort(X[again], y[again], e[again], None, bias=False)
    first, second = (
        weighted(PenaltyObjective(rows, 3, penalty, l2=0.1), W.ravel(), 2.0)(W.ravel()) for rows in (counted, repeated)
    )
    assert first[0] == pytest.approx(second[0], rel=1e-12)
    np.testing.assert_allclose(first[1], second[1], rtol=1e-10, atol=1e-12)


@each_penalty
@each_number
@pytest.mark.parametrize("bias", [False, True])
def test_value_and_gradient_belong_together(penalty: DomainPenalty, classes: int, bias: bool) -> None:
    X, y, e, W = problem(classes)
    head = np.column_stack([W, np.ones((len(W), int(bias)))]).ravel()
    objective = PenaltyObjective(SortedRows.sort(X, y, e, None, bias=bias), classes, penalty, l2=0.1)
    plain = objective(head)[0]
    weighted(objective, head, 3.0)
    assert objective(head)[0] == pytest.approx(plain + 3.0 * sum(objective.terms(head).values()))
    assert check_grad(lambda head: objective(head)[0], lambda head: objective(head)[1], head) < 1e-5


@each_penalty
def test_curvature_is_that_of_gauss_newton(penalty: DomainPenalty) -> None:
    """Against second differences of the penalty, up to the residual part, which vanishes with the deviations."""
    X, y, e, W = problem(2)
    objective = PenaltyObjective(SortedRows.sort(X, y, e, None, bias=False), 2, penalty, l2=0.1)
    curvature = weighted(objective, W.ravel(), 2.0).curvature(W.ravel())
    np.testing.assert_allclose(curvature, curvature.T, atol=1e-12)
    assert np.linalg.eigvalsh(curvature).min() > -1e-10

    def penalised(head: np.ndarray) -> float:
        return 2.0 * sum(objective.terms(head).values())

    step = 1e-4 * np.random.default_rng(0).normal(size=W.size)
    second = penalised(W.ravel() + step) - 2 * penalised(W.ravel()) + penalised(W.ravel() - step)
    residual = abs(second - step @ curvature @ step)
    assert residual < 20 * np.sqrt(penalised(W.ravel())) * float(step @ step) + 1e-12


@each_penalty
@each_number
@pytest.mark.parametrize("weight", [0.0, 5.0])
def test_coordinates_have_the_curvature_of_loss_l2_and_penalty(
    penalty: DomainPenalty, classes: int, weight: float
) -> None:
    X, y, e, W = problem(classes)
    objective = PenaltyObjective(SortedRows.sort(X, y, e, None, bias=False), classes, penalty, l2=0.1)
    head = W.ravel()
    weighted(objective, head, weight)
    P = objective.plain.curvatures(head).mean(0) + 0.1 * np.eye(head.size)
    if weight:
        P += objective.curvature(head)
    change = np.random.default_rng(5).normal(size=W.shape)
    if classes > 2:
        change -= change.mean(0)  # one vector added to all logits' heads changes nothing
    chosen = objective.coordinates(head)
    step = chosen.back(chosen.back(change.ravel(), gradient=True))
    np.testing.assert_allclose(step, np.linalg.solve(P, change.ravel()), rtol=1e-6, atol=1e-9)


def test_heads_too_large_for_one_matrix_have_the_coordinates_of_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, e, W = problem(3)
    objective = PenaltyObjective(SortedRows.sort(X, y, e, None, bias=False), 3, VREx(), l2=0.1)
    weighted(objective, W.ravel(), 5.0)
    monkeypatch.setattr("momentalign.linear._alignment_objective._DENSE", W.size - 1)
    chosen = objective.coordinates(W.ravel())
    block = objective.plain.curvatures(W.ravel()).mean(0) + 0.1 * np.eye(4)
    step = chosen.back(chosen.back(W.ravel(), gradient=True))
    np.testing.assert_allclose(step.reshape(W.shape), np.linalg.solve(block, W.T).T, rtol=1e-6)


def test_other_losses_are_refused() -> None:
    X, y, e, _ = problem(2)
    with pytest.raises(ValueError, match="loss 'cross_entropy', but got 'logistic'"):
        PenaltyObjective(SortedRows.sort(X, y, e, None, bias=False), 2, VREx(loss="logistic"), l2=0.1)
