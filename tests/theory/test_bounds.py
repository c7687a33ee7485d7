import numpy as np
import pytest

from momentalign.theory import (
    DomainLosses,
    ManySourceBounds,
    TransferMeasures,
    many_source_bounds,
    pareto_point,
    target_errors,
    transfer_measures,
)
from momentalign.theory._minimize import mixture_minimizer
from tests.theory.problems import make_losses, mixture_transfer, quadratics

pytestmark = pytest.mark.slow


def smallest_loss(losses: DomainLosses, weights: np.ndarray) -> float:
    return float(weights @ losses.values(mixture_minimizer(losses, weights)))


def measured(losses: DomainLosses, radius: float = 1.0) -> tuple[np.ndarray, TransferMeasures, ManySourceBounds]:
    center = pareto_point(losses).head
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
    assert bounds.midpoint_symmetric == pytest.approx(measures.symmetric.max() / 2 + bounds.largest_gap)
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


def test_the_largest_gap_of_two_domains() -> None:
    """½ab/(√a + √b)² of the squared distance, at weights in proportion to 1/√a and 1/√b."""
    losses = quadratics([1.0, 9.0], [1.0, -1.0])
    bounds = many_source_bounds(losses, transfer_measures(losses, [[0.0]], 1.0))
    assert bounds.largest_gap == pytest.approx(4 / 2 * 9 / 16, abs=1e-6)
    assert bounds.gap == pytest.approx(4 / 2 * 9 / 20, abs=1e-6)


def test_errors_of_a_target_whose_loss_is_a_quadratic() -> None:
    """Sources ½aᵢ(θ − cᵢ)² and the target ½a(θ − c)² over an interval, against values on a grid."""
    sources, target, center, radius = [(1.0, -1.0), (4.0, 0.5), (2.0, 2.0)], (3.0, 1.0), 0.25, 1.5
    losses = quadratics(*map(list, zip(*sources, strict=True)))
    head = np.array([[center]])
    bounds = many_source_bounds(losses, transfer_measures(losses, head, radius))
    root = np.sqrt(target[0])
    errors = target_errors(losses, [[root]], [root * target[1]], head, radius, bounds)

    theta = center + radius * np.linspace(-1, 1, 20001)
    wide = np.linspace(-3, 3, 60001)

    def value(pair: tuple[float, float], at: np.ndarray) -> np.ndarray:
        return pair[0] / 2 * (at - pair[1]) ** 2

    def mixture(at: np.ndarray) -> np.ndarray:
        return np.mean([value(pair, at) for pair in sources], axis=0)

    assert errors.loss == pytest.approx(value(target, np.array(center)), rel=1e-6)
    assert errors.minimum == pytest.approx(0, abs=1e-6)
    assert errors.source_loss == pytest.approx(mixture(np.array(center)), rel=1e-6)
    assert errors.source_minimum == pytest.approx(mixture(wide).min(), rel=1e-6)
    transfer = (value(target, theta) - (mixture(theta) - mixture(wide).min())).max()
    assert errors.transfer == pytest.approx(transfer, rel=1e-5)
    alone = [(value(target, theta) - value(pair, theta)).max() for pair in sources]
    np.testing.assert_allclose(errors.from_sources, alone, rtol=1e-5)
    assert errors.bound == pytest.approx(errors.source_loss - errors.source_minimum + transfer, rel=1e-5)
    assert errors.hull_bound - errors.bound == pytest.approx(bounds.mixture_one_sided - errors.transfer)
