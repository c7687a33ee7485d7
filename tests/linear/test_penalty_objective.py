import numpy as np
import pytest
import torch
from scipy.optimize import check_grad

from momentalign import HGP, IRM, Fishr, Hutchinson, VREx
from momentalign.linear import PenaltyObjective, SortedRows
from momentalign.penalties import DomainPenalty
from tests.linear.problems import Problem, make_problem

PENALTIES = [IRM(bias=False), VREx(), Fishr(bias=False, momentum=0.0), HGP(bias=False), Hutchinson(bias=False)]
each_penalty = pytest.mark.parametrize("penalty", PENALTIES, ids=lambda penalty: type(penalty).__name__)
each_number = pytest.mark.parametrize("classes", [2, 3])


def make_objective(
    problem: Problem, penalty: DomainPenalty, weight: float, bias: bool = False, times: np.ndarray | None = None
) -> tuple[PenaltyObjective, np.ndarray]:
    """The objective with a weight for every term, and a head."""
    rows = SortedRows.sort(*problem.columns, times, bias=bias)
    objective = PenaltyObjective(rows, problem.classes, penalty, l2=0.1)
    head = np.random.default_rng(1).normal(size=objective.shape).ravel()
    objective.set_weights(dict.fromkeys(objective.terms(head), weight))
    return objective, head


@each_penalty
@each_number
def test_terms_over_all_rows_are_those_of_the_penalty(penalty: DomainPenalty, classes: int) -> None:
    problem = make_problem(classes)
    objective, head = make_objective(problem, penalty, 0.0)
    Z = torch.tensor(problem.features @ head.reshape(objective.shape).T)
    logits = torch.cat([-Z / 2, Z / 2], 1) if classes == 2 else Z
    X, y, e = map(torch.as_tensor, problem.columns)
    expected = {name: float(value) for name, value in penalty.terms(X, logits, y, e).items()}
    assert objective.terms(head) == pytest.approx(expected, rel=1e-12)


@each_penalty
def test_a_row_that_counts_twice_is_two_rows(penalty: DomainPenalty) -> None:
    problem = make_problem(3)
    times = np.random.default_rng(0).integers(0, 3, 60)
    counted, head = make_objective(problem, penalty, 2.0, times=times.astype(float))
    repeated, _ = make_objective(problem.repeated(times), penalty, 2.0)
    assert counted(head)[0] == pytest.approx(repeated(head)[0], rel=1e-12)
    np.testing.assert_allclose(counted(head)[1], repeated(head)[1], rtol=1e-10, atol=1e-12)


@each_penalty
@each_number
@pytest.mark.parametrize("bias", [False, True])
def test_value_and_gradient_belong_together(penalty: DomainPenalty, classes: int, bias: bool) -> None:
    objective, head = make_objective(make_problem(classes), penalty, 3.0, bias)
    plain, _ = make_objective(make_problem(classes), penalty, 0.0, bias)
    assert objective(head)[0] == pytest.approx(plain(head)[0] + 3.0 * sum(objective.terms(head).values()))
    assert check_grad(lambda head: objective(head)[0], lambda head: objective(head)[1], head) < 1e-5


@each_penalty
def test_curvature_is_that_of_gauss_newton(penalty: DomainPenalty) -> None:
    """Against second differences of the penalty, up to the residual part, which vanishes with the deviations."""
    objective, head = make_objective(make_problem(2), penalty, 2.0)
    curvature = objective.penalty_curvature(head)
    np.testing.assert_allclose(curvature, curvature.T, atol=1e-12)
    assert np.linalg.eigvalsh(curvature).min() > -1e-10

    def penalised(head: np.ndarray) -> float:
        return 2.0 * sum(objective.terms(head).values())

    step = 1e-4 * np.random.default_rng(0).normal(size=head.size)
    second = penalised(head + step) - 2 * penalised(head) + penalised(head - step)
    residual = abs(second - step @ curvature @ step)
    assert residual < 20 * np.sqrt(penalised(head)) * float(step @ step) + 1e-12


@each_penalty
@each_number
@pytest.mark.parametrize("weight", [0.0, 5.0])
@pytest.mark.parametrize("dense", [True, False])
def test_coordinates_have_the_curvature_of_loss_l2_and_penalty(
    penalty: DomainPenalty, classes: int, weight: float, dense: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective, head = make_objective(make_problem(classes), penalty, weight)
    if not dense:
        monkeypatch.setattr("momentalign.linear._objective.DENSE", 0)
    P = objective.curvature(head)
    if weight and P.shape == (head.size, head.size):  # larger heads have that of the loss alone
        P = P + objective.penalty_curvature(head)
    P = np.kron(np.eye(head.size // len(P)), P) + 0.1 * np.eye(head.size)
    change = np.random.default_rng(5).normal(size=objective.shape)
    if classes > 2:
        change -= change.mean(0)  # one vector added to all logits' heads changes nothing
    chosen = objective.coordinates(head)
    step = chosen.back(chosen.back(change.ravel(), gradient=True))
    np.testing.assert_allclose(step, np.linalg.solve(P, change.ravel()), rtol=1e-6, atol=1e-9)


def test_other_losses_are_refused() -> None:
    with pytest.raises(ValueError, match="loss 'cross_entropy', but got 'logistic'"):
        make_objective(make_problem(2), VREx(loss="logistic"), 1.0)
