import copy

import pytest
import torch
from torch.optim import SGD, Adam, AdamW, Optimizer

from momentalign.algorithms import reset_optimizer
from tests.algorithms.tiny import batch, build, run


@pytest.mark.parametrize(("name", "kind"), [("adam", Adam), ("adamw", AdamW)])
def test_optimizer_by_name(name: str, kind: type[Optimizer]) -> None:
    algorithm = build("erm", optimizer=name, lr=0.5, weight_decay=0.25)
    (optimizer,) = algorithm.optimizers().values()
    assert type(optimizer) is kind
    (group,) = optimizer.param_groups
    assert (group["lr"], group["weight_decay"], group["capturable"]) == (0.5, 0.25, False)
    assert len(group["params"]) == len(list(algorithm.parameters()))


@pytest.mark.parametrize("kind", [Adam, AdamW, lambda p, lr: SGD(p, lr, momentum=0.9)])
def test_a_reset_optimizer_is_a_new_one(kind: type[Optimizer]) -> None:
    used, fresh = build("erm"), build("erm")
    optimizer = kind(used.parameters(), lr=0.1)
    run(used, {"network": optimizer}, range(3))
    fresh.load_state_dict(copy.deepcopy(used.state_dict()))
    reset_optimizer(optimizer)
    run(used, {"network": optimizer}, range(3, 6))
    run(fresh, {"network": kind(fresh.parameters(), lr=0.1)}, range(3, 6))
    for mine, its in zip(used.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(mine, its)


def test_a_reset_writes_in_place() -> None:
    algorithm = build("erm")
    (optimizer,) = algorithm.optimizers().values()
    run(algorithm, {"network": optimizer}, range(2))
    tensors = [value for state in optimizer.state.values() for value in state.values()]
    reset_optimizer(optimizer)
    after = [value for state in optimizer.state.values() for value in state.values()]
    assert len(tensors) == 3 * len(list(algorithm.parameters()))
    assert all(a is b for a, b in zip(tensors, after, strict=True))
    assert not any(tensor.any() for tensor in tensors)


def test_weight_decay_is_used() -> None:
    moved = []
    for decay in (0.0, 0.1):
        algorithm = build("erm", weight_decay=decay)
        algorithm.update(batch(), algorithm.optimizers(), lambda loss: loss.backward())
        moved.append(algorithm.network.head.weight.detach())
    assert (moved[0] != moved[1]).any()
