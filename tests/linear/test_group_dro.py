import numpy as np
import pytest

from momentalign.linear import AlignmentObjective, SortedRows, fit_path, solve_group_dro


@pytest.mark.parametrize("number", [2, 3])
def test_group_dro_ends_at_the_saddle_point(number: int) -> None:
    rng = np.random.default_rng(number)
    X, y, e = rng.normal(size=(150, 3)), rng.integers(0, 2, 150), rng.integers(0, number, 150)
    X[:, 0] += y * (e + 0.5)
    rows = SortedRows.sort(X, y, e, None, bias=False)
    values: list[float] = []
    solution, q = solve_group_dro(
        rows, 2, l2=0.05, tol=1e-5, max_iter=500, watch=lambda value, head: values.append(value)
    )
    assert solution.converged
    assert values[-1] == solution.value
    objective = AlignmentObjective(rows, 2, l2=0.05)
    losses = objective.domain_losses(solution.head)
    norm = 0.025 * float(np.square(solution.head).sum())
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
    (balanced,) = fit_path(X, y, e, [{}], l2=0.05, bias=False, tol=1e-8)
    assert losses.max() < objective.domain_losses(balanced.coef.ravel()).max() - 1e-4
