import pytest
import torch

from momentalign import CMA, IRM, GradientMatching, HessianMatching, MomentAlignment
from tests.penalties.agreement import assert_agrees
from tests.references import assert_equal, dense_derivatives, dense_spread, linear, make_batch

LOSS = "cross_entropy"


def test_value_and_gradients() -> None:
    assert_agrees(
        CMA(0.5, 3.0),
        lambda *inputs: 0.5 * dense_spread(1, LOSS, *inputs) + 3 * dense_spread(2, LOSS, *inputs),
        make_batch(LOSS, d=3, C=4),
    )


@pytest.mark.parametrize("options", [{}, {"scaling": "relative"}, {"momentum": 0.5}, {"route": "direct"}], ids=str)
def test_special_cases(options: dict[str, object]) -> None:
    inputs = make_batch(LOSS).inputs
    gradient, hessian = GradientMatching(2.0, **options), HessianMatching(3.0, **options)
    assert list(gradient.terms(*inputs)) == ["gradient"]
    assert list(hessian.terms(*inputs)) == ["hessian"]
    assert_equal(CMA(2.0, 0.0, **options)(*inputs), gradient(*inputs))
    assert_equal(CMA(0.0, 3.0, **options)(*inputs), hessian(*inputs))
    together = MomentAlignment({1: 2.0, 2: 3.0}, **options)(*inputs)
    assert_equal(CMA(2.0, 3.0, **options)(*inputs), together)


def test_gradient_spread_is_irm_less_the_mean_gradient() -> None:
    batch = make_batch(LOSS)
    mean = dense_derivatives(1, LOSS, batch.features, batch.head, batch.targets, batch.domains).mean(0)
    assert_equal(GradientMatching()(*batch.inputs), IRM()(*batch.inputs) - mean.square().sum())


def test_gradient_matching_is_irm_where_the_mean_loss_is_least() -> None:
    batch = make_batch("squared_error", balance="balanced", n=15)
    X = torch.cat([batch.features, torch.ones(15, 1, dtype=torch.float64)], 1)
    logits = linear(batch.features, torch.linalg.lstsq(X, batch.targets).solution.T)
    inputs = batch.features, logits, batch.targets, batch.domains
    assert_equal(GradientMatching(loss="squared_error")(*inputs), IRM(loss="squared_error")(*inputs))


def test_both_vanish_at_a_common_optimum() -> None:
    batch = make_batch("squared_error")
    inputs = batch.features, batch.logits, batch.logits, batch.domains
    assert GradientMatching(loss="squared_error")(*inputs).item() == IRM(loss="squared_error")(*inputs).item() == 0


def test_spread_is_the_distance_between_pairs_of_domains() -> None:
    batch = make_batch(LOSS)
    g = dense_derivatives(1, LOSS, batch.features, batch.head, batch.targets, batch.domains)
    pairs = sum((g[e] - g[f]).square().sum() for e in range(len(g)) for f in range(e))
    assert_equal(GradientMatching()(*batch.inputs), pairs / len(g) ** 2)
