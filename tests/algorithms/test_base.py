import copy

import pytest
import torch
from torch.optim import SGD, Adam, AdamW, Optimizer

from momentalign.algorithms import Batch, reset_optimizer
from tests.algorithms.tiny import ROWS, K, batch, build, run


@pytest.mark.parametrize("number", [K, None])
def test_one_batch_a_domain(number: int | None) -> None:
    rows = batch()
    parts = rows.per_domain(number)
    assert [len(part) for part in parts] == [ROWS] * K
    assert [part.domains.unique().tolist() for part in parts] == [[0], [1], [2]]
    assert torch.equal(torch.cat([part.inputs for part in parts]), rows.inputs)
    assert torch.equal(torch.cat([part.targets for part in parts]), rows.targets)


@pytest.mark.parametrize("domains", [[0, 0, 1], [0, 1, 0, 1], [1, 1, 0, 0]])
def test_blocks_of_other_shape_are_refused(domains: list[int]) -> None:
    rows = Batch(torch.zeros(len(domains), 1), torch.zeros(len(domains), dtype=torch.long), torch.tensor(domains))
    with pytest.raises(ValueError, match=r"should be 0 … 1 in blocks of one size, but a batch of . rows is not"):
        rows.per_domain(2)


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
