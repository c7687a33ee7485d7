import math

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from momentalign.algorithms import Batch
from tests.algorithms.tiny import K, assert_descends, batch, build, descents
from tests.references import assert_equal


def losses_of(twin: nn.Module, rows: Batch) -> Tensor:
    _, logits = twin(rows.inputs)
    losses = [cross_entropy(logits[rows.domains == e], rows.targets[rows.domains == e]) for e in range(K)]
    return torch.stack(losses)


def test_weights_grow_with_the_losses() -> None:
    q = torch.ones(K, dtype=torch.float64)

    def loss(twin: nn.Module, rows: Batch, step: int) -> Tensor:
        nonlocal q
        losses = losses_of(twin, rows)
        q = q * (0.7 * losses.detach()).exp()
        q = q / q.sum()
        return (q * losses).sum()

    algorithm = build("groupdro", eta=0.7)
    assert_descends(algorithm, loss)
    assert_equal(algorithm.log_weights.exp(), q)


def test_a_weight_can_come_back_from_next_to_nothing() -> None:
    algorithm, rows = build("groupdro", eta=1000.0), batch()
    losses = losses_of(algorithm.network, rows).detach()
    worst, gap = int(losses.argmax()), float(losses.max() - losses.sort().values[-2])
    with torch.no_grad():
        algorithm.log_weights.zero_()
        algorithm.log_weights[worst] = -800.0  # exp(-800) is 0 in float64
    for _ in range(math.ceil(801 / (1000 * gap))):
        logged = algorithm.update(rows, descents(algorithm, 0.0), lambda loss: loss.backward())
    assert logged["loss"].isfinite()
    assert int(algorithm.log_weights.argmax()) == worst


def test_equal_weights_without_eta_are_erm() -> None:
    def loss(twin: nn.Module, rows: Batch, step: int) -> Tensor:
        return losses_of(twin, rows).mean()

    assert_descends(build("groupdro", eta=0.0), loss)
