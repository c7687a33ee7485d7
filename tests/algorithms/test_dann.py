"""DANN and CDANN against both players' losses written down again."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from momentalign.algorithms import DANN, Batch
from tests.algorithms.tiny import K, batch, build, descents, run
from tests.references import assert_equal

LR, WEIGHT, SLOPE, STEPS = 0.1, 0.7, 0.3, 2
SETTINGS = {
    "discriminator_weight": WEIGHT,
    "gradient_penalty_weight": SLOPE,
    "discriminator_steps": STEPS,
    "discriminator_width": 5,
}


def players(twin: DANN, rows: Batch) -> tuple[Tensor, Tensor]:
    """What the network and what the discriminator minimise, row by row."""
    features, logits = twin.network(rows.inputs)
    losses, slopes, weights = [], [], []
    for i in range(len(rows)):
        y = int(rows.targets[i])
        seen = features[i] if not twin.conditional else features[i] + twin.embeddings.weight[y]
        losses.append(-twin.discriminator(seen[None]).log_softmax(1)[0, rows.domains[i]])
        (slope,) = torch.autograd.grad(losses[-1], seen, create_graph=True)
        slopes.append(slope.square().sum())
        # Every class of the batch counts the same: a row of a class of c rows counts 1/c.
        weights.append(1.0 if not twin.conditional else 1 / int((rows.targets == y).sum()))
    total = sum(w * loss for w, loss in zip(weights, losses, strict=True)) / sum(weights)
    adversary = total + SLOPE * sum(slopes) / len(rows)
    return cross_entropy(logits, rows.targets) - WEIGHT * adversary, adversary


def descend(loss: Tensor, parameters: list[nn.Parameter]) -> None:
    gradients = torch.autograd.grad(loss, parameters)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter -= LR * gradient


@pytest.mark.parametrize("name", ["dann", "cdann"])
def test_players_take_turns(name: str) -> None:
    algorithm = build(name, **SETTINGS)
    twin = copy.deepcopy(algorithm)
    optimizers = descents(algorithm, LR)
    for step in range(2 * (STEPS + 1)):
        (logged,) = run(algorithm, optimizers, range(step, step + 1))
        mine, adversary = players(twin, batch(step))
        assert_equal(logged["loss"], mine)
        turn = step % (STEPS + 1)
        if turn < STEPS:
            rivals = [*twin.discriminator.parameters(), *(twin.embeddings.parameters() if twin.conditional else ())]
            descend(adversary, rivals)
        else:
            descend(mine, list(twin.network.parameters()))
        for found, expected in zip(algorithm.parameters(), twin.parameters(), strict=True):
            assert_equal(found, expected, 1e-9)


def test_both_optimizers_have_their_settings() -> None:
    algorithm = build("cdann", lr=2e-3, weight_decay=0.1, discriminator_weight_decay=0.2, beta1=0.0)
    optimizers = algorithm.optimizers()
    for name, decay in (("network", 0.1), ("discriminator", 0.2)):
        (group,) = optimizers[name].param_groups
        assert (group["lr"], group["betas"], group["weight_decay"]) == (2e-3, (0.0, 0.9), decay)
    counts = [sum(p.numel() for g in o.param_groups for p in g["params"]) for o in optimizers.values()]
    assert sum(counts) == sum(p.numel() for p in algorithm.parameters())


def test_the_discriminator_has_the_depth_it_is_asked_for() -> None:
    for depth in (2, 5):
        algorithm = build("dann", discriminator_depth=depth, discriminator_width=7, discriminator_dropout=0.5)
        layers = [layer for layer in algorithm.discriminator if isinstance(layer, nn.Linear)]
        assert len(layers) == depth
        assert {layer.out_features for layer in layers[:-1]} == {7}
        assert layers[-1].out_features == K


def test_turns_go_on_from_a_checkpoint() -> None:
    first = build("dann", **SETTINGS)
    run(first, descents(first), range(1))
    second = build("dann", **SETTINGS)
    run(second, descents(second), range(5))  # it has counted on its own before it is loaded
    second.load_state_dict(first.state_dict())
    before = [parameter.detach().clone() for parameter in second.network.parameters()]
    run(second, descents(second), range(1, 2))  # still the discriminator's
    assert all(torch.equal(a, b) for a, b in zip(second.network.parameters(), before, strict=True))
    run(second, descents(second), range(2, 3))
    assert all((a != b).any() for a, b in zip(second.network.parameters(), before, strict=True))
