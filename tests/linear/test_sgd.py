import numpy as np
import pytest
import torch

from momentalign import CMA, GradientMatching
from momentalign.linear import GroupWeights, LinearHead, fit_head, fit_sgd
from tests.linear.problems import Problem, make_problem

pytestmark = pytest.mark.slow


def columns(problem: Problem) -> tuple:
    return problem.features, problem.targets, problem.domains


def fit(problem: Problem, **options: object) -> LinearHead:
    options = {"classes": max(problem.classes, 2), "epochs": 3, "batch_size": 20, "learning_rate": 0.1, **options}
    return fit_sgd(*columns(problem), **options)


@pytest.mark.parametrize("classes", [2, 3])
def test_full_batches_and_patience_reach_the_converged_solution(classes: int) -> None:
    problem = make_problem(classes)
    exact = fit_head(*columns(problem), {1: 0.1, 2: 0.1}, classes=classes, tol=1e-8, l2=0.1, scaling="none")
    steps = fit(
        problem, penalty=CMA(0.1, 0.1), l2=0.1, bias=True, epochs=400, batch_size=60, learning_rate=0.5, classes=classes
    )
    np.testing.assert_allclose(steps.coef, exact.coef, atol=1e-3)
    np.testing.assert_allclose(
        steps.intercept - steps.intercept.mean(), exact.intercept - exact.intercept.mean(), atol=1e-3
    )


def test_the_seed_decides_and_the_weights_wait() -> None:
    problem = make_problem(2)
    first, again, other = (fit(problem, penalty=GradientMatching(bias=False), seed=seed) for seed in (1, 1, 2))
    assert (first.coef == again.coef).all()
    assert (first.coef != other.coef).any()
    plain = fit(problem, seed=1)
    waiting = fit(problem, penalty=GradientMatching(1e6, bias=False, anneal_steps=9), seed=1)
    assert (plain.coef == waiting.coef).all()


def test_the_first_head_may_have_its_own_seed() -> None:
    problem = make_problem(2)
    heads: dict[int, list[np.ndarray]] = {0: [], 1: []}
    for seed, seen in heads.items():
        watch = lambda step, loss, head, seen=seen: seen.append(head)  # noqa: E731
        fit(problem, seed=seed, head_seed=0, learning_rate=1e-12, watch=watch)
    np.testing.assert_allclose(heads[0][0], heads[1][0], atol=1e-9)
    assert (fit(problem, seed=0, head_seed=0).coef != fit(problem, seed=1, head_seed=0).coef).any()


def test_every_step_is_observed_and_divergence_ends_the_fit() -> None:
    problem, steps = make_problem(2), []
    head = fit(problem, watch=lambda step, loss, head: steps.append(step))
    assert steps == list(range(9))
    assert head.n_iter == 9
    for epochs in (1, 50):
        large = Problem(2, 1e3 * problem.features, problem.targets, problem.domains)
        wild = fit(
            large,
            penalty=GradientMatching(bias=False, validate=False),
            batch_size=60,
            epochs=epochs,
            learning_rate=1e308,
        )
        assert not wild.converged
        assert wild.n_iter < 3


def test_the_objective_is_the_mean_loss_of_the_last_epoch() -> None:
    """Of 60 rows in batches of 25 the last batch has 10, and counts for as many."""
    losses: list[float] = []
    head = fit(make_problem(3), batch_size=25, l2=0.1, watch=lambda step, loss, head: losses.append(loss))
    assert len(losses) == 9
    assert head.objective == pytest.approx(np.average(losses[-3:], weights=[25, 25, 10]), rel=1e-12)


def test_group_weights_move_to_the_domain_with_the_larger_loss() -> None:
    weights = GroupWeights(0.5, 3)
    losses, domains = torch.tensor([1.0, 3.0, 2.0], dtype=torch.float64), torch.tensor([0, 0, 1])
    value = weights(losses, domains)
    expected = np.exp([0.5 * 2.0, 0.5 * 2.0, 0.0])
    expected /= expected.sum()
    np.testing.assert_allclose(weights.q.numpy(), expected)
    assert value.item() == pytest.approx(2.0 * expected[0] + 2.0 * expected[1])
