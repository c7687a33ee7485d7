import numpy as np
import pytest

from momentalign.linear import fit_head, fit_sgd
from tests.linear.problems import make_problem


@pytest.mark.parametrize("classes", [2, 3])
def test_full_batches_and_patience_reach_the_converged_solution(classes: int) -> None:
    problem, weights = make_problem(classes), {1: 0.1, 2: 0.1}
    columns, options = (
        (problem.features, problem.targets, problem.domains),
        {"l2": 0.1, "scaling": "none", "bias": True},
    )
    exact = fit_head(*columns, weights, classes=classes, tol=1e-8, **options)
    steps = fit_sgd(*columns, weights, classes=classes, epochs=400, batch_size=60, learning_rate=0.5, **options)
    np.testing.assert_allclose(steps.coef, exact.coef, atol=1e-3)
    np.testing.assert_allclose(
        steps.intercept - steps.intercept.mean(), exact.intercept - exact.intercept.mean(), atol=1e-3
    )


def test_the_seed_decides_and_the_weights_wait() -> None:
    problem = make_problem(2)
    columns = (problem.features, problem.targets, problem.domains)
    options = {"classes": 2, "epochs": 3, "batch_size": 20, "learning_rate": 0.1}
    first, again, other = (fit_sgd(*columns, {1: 1.0}, seed=seed, **options) for seed in (1, 1, 2))
    assert (first.coef == again.coef).all()
    assert (first.coef != other.coef).any()
    plain = fit_sgd(*columns, {}, seed=1, **options)
    waiting = fit_sgd(*columns, {1: 1e6}, seed=1, anneal_steps=9, **options)
    assert (plain.coef == waiting.coef).all()


def test_a_batch_of_one_domain_is_no_cause_for_a_warning() -> None:
    problem = make_problem(2)
    head = fit_sgd(
        problem.features, problem.targets, np.sort(problem.domains), {1: 1.0, 2: 1.0}, classes=2, batch_size=1, epochs=1
    )
    assert np.isfinite(head.coef).all()


@pytest.mark.parametrize("epochs", [1, 50])
def test_divergence_is_said(epochs: int) -> None:
    problem = make_problem(2)
    with pytest.raises(ValueError, match=r"stopped being a number at step \d+\. Use a smaller learning_rate"):
        fit_sgd(
            1e3 * problem.features,
            problem.targets,
            problem.domains,
            {1: 1.0},
            classes=2,
            scaling="none",
            batch_size=60,
            epochs=epochs,
            learning_rate=1e308,
        )
