import numpy as np
import pytest

from momentalign.theory import (
    DomainLosses,
    ManySourceBounds,
    TransferMeasures,
    many_source_bounds,
    mixture_transfer,
    pareto_point,
    transfer_measures,
)
from momentalign.theory._minimize import smallest_loss
from tests.theory.problems import make_losses, quadratics, random_head

pytestmark = pytest.mark.slow


def measured(losses: DomainLosses, radius: float = 1.0) -> tuple[np.ndarray, TransferMeasures, ManySourceBounds]:
    center = pareto_point(losses, restarts=0).head
    measures = transfer_measures(losses, center, radius)
    return center, measures, many_source_bounds(losses, measures)


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_balanced_mixture_on_quadratics(K: int, seed: int) -> None:
    """Exact measures, random targets in the hull: no direction of any measure exceeds its bound."""
    losses = make_losses("squared_error", K=K, seed=seed, C=1)
    center, _, bounds = measured(losses)
    balanced = np.full(K, 1 / K)
    targets = [*np.eye(K), *np.random.default_rng(seed).dirichlet(np.full(K, 0.5), 10)]
    for target in targets:
        there = mixture_transfer(losses, balanced, target, center, 1.0)
        back = mixture_transfer(losses, target, balanced, center, 1.0)
        assert there <= bounds.mixture_one_sided + 1e-9
        assert max(there, back) <= bounds.mixture_symmetric + 1e-9
    assert bounds.exact
    assert bounds.mixture_realizable == pytest.approx(2 * (K - 1) / K * bounds.midpoint_realizable)


def test_realizable_at_heads_of_the_ball() -> None:
    losses = make_losses("squared_error")
    center, _, bounds = measured(losses)
    rng = np.random.default_rng(0)
    for _ in range(200):
        step = rng.normal(size=center.shape)
        values = losses.values(center + step / np.linalg.norm(step))
        assert abs(values.mean() - rng.dirichlet(np.ones(3)) @ values) <= bounds.mixture_realizable + 1e-9


def test_gap_of_the_optima() -> None:
    losses = make_losses()
    _, measures, bounds = measured(losses)
    assert bounds.gap == pytest.approx(smallest_loss(losses, np.full(3, 1 / 3)) - measures.minima.mean())
    assert 0 <= bounds.gap <= bounds.largest_gap
    for weights in np.random.default_rng(0).dirichlet(np.ones(3), 20):
        assert smallest_loss(losses, weights) - weights @ measures.minima <= bounds.largest_gap + 1e-9


def test_midpoint_of_the_gaps() -> None:
    """Half-way between the largest and the smallest optimality gap no domain is further than half the worst pair."""
    losses = make_losses("squared_error", K=4)
    center, measures, bounds = measured(losses)
    rng = np.random.default_rng(0)
    for _ in range(200):
        step = rng.normal(size=center.shape)
        gaps = losses.values(center + step / np.linalg.norm(step)) - measures.minima
        middle = (gaps.max() + gaps.min()) / 2
        assert (gaps - middle).max() <= bounds.midpoint_one_sided + 1e-9
        target = rng.dirichlet(np.full(4, 0.5))
        own = target @ (gaps + measures.minima) - smallest_loss(losses, target)
        assert own - middle <= bounds.midpoint_one_sided + 1e-9
        assert middle - own <= bounds.midpoint_symmetric + 1e-9


def test_other_mixtures_matter_to_the_symmetric_bound() -> None:
    """Two domains in conflict among six: the gap of the balanced mixture is a third of the largest one."""
    losses = quadratics([1.0, 1.0, 1e-3, 1e-3, 1e-3, 1e-3], [1.0, -1.0, 0.0, 0.0, 0.0, 0.0])
    measures = transfer_measures(losses, [[0.0]], 0.1)
    bounds = many_source_bounds(losses, measures)
    assert bounds.gap == pytest.approx(1 / 6, abs=1e-3)
    assert bounds.largest_gap == pytest.approx(1 / 2, abs=1e-3)
    assert bounds.mixture_symmetric - bounds.mixture_one_sided == pytest.approx(1 / 6, abs=2e-3)


def test_lower_estimates_are_named_so() -> None:
    losses = make_losses()
    measures = transfer_measures(losses, random_head(losses), 1.0, restarts=1)
    assert not many_source_bounds(losses, measures).exact
