"""ERM with each penalty, and GroupDRO, take the steps of a loss that is written down again without closed forms."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from momentalign.algorithms import ERM, Batch
from tests.algorithms.tiny import CLASSES, FEATURES, K, assert_descends, batch, build, descents, head_of, network, run
from tests.references import assert_equal, dense_derivatives, dense_spread, sample_losses

pytestmark = pytest.mark.slow

Term = Callable[[Tensor, Tensor, Batch], Tensor]
"""From features, head (C, d + 1) and batch to a number."""


def domain_losses(twin: nn.Module, rows: Batch) -> tuple[Tensor, Tensor]:
    features, logits = twin(rows.inputs)
    losses = [cross_entropy(logits[rows.domains == e], rows.targets[rows.domains == e]) for e in range(K)]
    return features, torch.stack(losses)


def mean_loss(twin: nn.Module, rows: Batch) -> tuple[Tensor, Tensor]:
    features, losses = domain_losses(twin, rows)
    return features, losses.mean()


def annealed(weights: dict[str, float], terms: dict[str, Term], anneal_steps: int, initial: float = 0.0):
    """Cross-entropy and weighted terms."""

    def loss(twin: nn.Module, rows: Batch, step: int) -> Tensor:
        features, total = mean_loss(twin, rows)
        for name, term in terms.items():
            weight = weights[name] if step >= anneal_steps else initial
            total = total + weight * term(features, head_of(twin), rows)
        return total

    return loss


def spread_of(order: int, scale: float = 1.0) -> Term:
    return lambda X, W, rows: dense_spread(order, "cross_entropy", X, W, rows.targets, rows.domains) / scale


def spread(vectors: Tensor) -> Tensor:
    return (vectors - vectors.mean(0)).square().sum(1).mean()


def by_domain(function: Callable[[Tensor, Tensor], Tensor], X: Tensor, rows: Batch) -> Tensor:
    """Stack a function of each domain's features and targets."""
    return torch.stack([function(X[rows.domains == e], rows.targets[rows.domains == e]) for e in range(K)])


def domain_loss(X: Tensor, W: Tensor, targets: Tensor) -> Tensor:
    return sample_losses("cross_entropy", X @ W[:, :-1].T + W[:, -1], targets).mean()


def loss_variance(X: Tensor, W: Tensor, rows: Batch) -> Tensor:
    return by_domain(lambda x, y: domain_loss(x, W, y), X, rows).var(correction=0)


def diagonals(X: Tensor, W: Tensor, rows: Batch) -> Tensor:
    hessians = dense_derivatives(2, "cross_entropy", X, W, rows.targets, rows.domains)
    return spread(hessians.reshape(K, W.numel(), W.numel()).diagonal(dim1=1, dim2=2))


C = CLASSES
TERMS: dict[str, tuple[float, Term]] = {
    "weight": (3.0, loss_variance),
    "gradient_weight": (2.0, spread_of(1, C)),
    "hessian_weight": (5.0, spread_of(2, C**2)),
    "order_3_weight": (7.0, spread_of(3, C**3)),
}
WEIGHTED = {
    "vrex": ["weight"],
    "gradient-matching": ["gradient_weight"],
    "hessian-matching": ["hessian_weight"],
    "cma": ["gradient_weight", "hessian_weight"],
    "cma-diagonal": ["gradient_weight", "hessian_weight"],
    "moment-alignment": ["gradient_weight", "hessian_weight", "order_3_weight"],
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_steps_are_those_of_the_loss_written_down_again(name: str) -> None:
    weights = {key: TERMS[key][0] for key in WEIGHTED[name]}
    terms = {key: TERMS[key][1] for key in WEIGHTED[name]}
    if name == "cma-diagonal":
        terms["hessian_weight"] = lambda *inputs: diagonals(*inputs) / C**2
    loss = annealed(weights, terms, 2, 1.0 if name == "vrex" else 0.0)
    assert_descends(build(name, **weights, anneal_steps=2), loss)


def test_fishr_against_the_gradients_of_single_samples() -> None:
    momentum, past = 0.9, torch.zeros(K, CLASSES * (FEATURES + 1), dtype=torch.float64)

    def loss(twin: nn.Module, rows: Batch, step: int) -> Tensor:
        nonlocal past
        features, total = mean_loss(twin, rows)
        W = head_of(twin)

        def variance(x: Tensor, y: Tensor) -> Tensor:
            gradients = [
                torch.autograd.grad(domain_loss(x[i : i + 1], W, y[i : i + 1]), W, create_graph=True)[0].flatten()
                for i in range(len(x))
            ]
            return torch.stack(gradients).var(0, correction=0)

        average = momentum * past + (1 - momentum) * by_domain(variance, features, rows)
        past = average.detach()
        values = average / (1 - momentum)
        penalty = (values - values.mean(0)).square().mean()
        return total + (5.0 if step >= 2 else 0.0) * penalty

    assert_descends(build("fishr", weight=5.0, momentum=momentum, anneal_steps=2), loss)


def test_momentum_is_a_decaying_sum_of_derivatives() -> None:
    momentum, past = 0.5, {1: 0.0, 2: 0.0}

    def loss(twin: nn.Module, rows: Batch, step: int) -> Tensor:
        features, total = mean_loss(twin, rows)
        for order, weight in ((1, 2.0), (2, 5.0)):
            derivatives = dense_derivatives(order, "cross_entropy", features, head_of(twin), rows.targets, rows.domains)
            sums = derivatives + momentum * past[order]
            past[order] = sums.detach()
            total = total + (weight if step >= 2 else 0.0) * spread(sums) / CLASSES**order
        return total

    weights = {"gradient_weight": 2.0, "hessian_weight": 5.0}
    assert_descends(build("cma-momentum", **weights, momentum=momentum, anneal_steps=2), loss)


def test_plain_erm_is_the_mean_of_the_domains_losses() -> None:
    assert_descends(build("erm"), lambda twin, rows, step: mean_loss(twin, rows)[1])


def test_the_terms_are_logged_unweighted() -> None:
    algorithm = build("cma", gradient_weight=2.0, hessian_weight=5.0, anneal_steps=2)
    rows, twin = batch(0), network()
    features, total = mean_loss(twin, rows)
    (logged,) = run(algorithm, algorithm.optimizers(), range(1))
    assert list(logged) == ["loss", "cross_entropy", "gradient", "hessian"]
    assert_equal(logged["cross_entropy"], total)
    assert_equal(logged["hessian"], spread_of(2, C**2)(features, head_of(twin), rows))


def test_reset_step_is_where_the_penalty_sets_in() -> None:
    assert build("cma", steps=5001).reset_step == 2500
    assert build("cma", anneal_steps=0).reset_step is None
    assert build("erm").reset_step is None
    assert isinstance(build("cma"), ERM)


def test_group_dros_weights_grow_with_the_losses() -> None:
    q = torch.ones(K, dtype=torch.float64)

    def loss(twin: nn.Module, rows: Batch, step: int) -> Tensor:
        nonlocal q
        losses = domain_losses(twin, rows)[1]
        q = q * (0.7 * losses.detach()).exp()
        q = q / q.sum()
        return (q * losses).sum()

    algorithm = build("groupdro", eta=0.7)
    assert_descends(algorithm, loss)
    assert_equal(algorithm.log_weights.exp(), q)


def test_group_dros_weight_can_come_back_from_next_to_nothing() -> None:
    algorithm, rows = build("groupdro", eta=1000.0), batch()
    losses = domain_losses(algorithm.network, rows)[1].detach()
    worst, gap = int(losses.argmax()), float(losses.max() - losses.sort().values[-2])
    with torch.no_grad():
        algorithm.log_weights.zero_()
        algorithm.log_weights[worst] = -800.0  # exp(-800) is 0 in float64
    for _ in range(math.ceil(801 / (1000 * gap))):
        logged = algorithm.update(rows, descents(algorithm, 0.0), lambda loss: loss.backward())
    assert logged["loss"].isfinite()
    assert int(algorithm.log_weights.argmax()) == worst


def test_group_dro_without_eta_are_erm() -> None:
    def loss(twin: nn.Module, rows: Batch, step: int) -> Tensor:
        return domain_losses(twin, rows)[1].mean()

    assert_descends(build("groupdro", eta=0.0), loss)
