"""What one rank of two does: every penalty on its share of a batch, against the whole batch in one process."""

import os
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from momentalign.penalties import DomainPenalty
from tests.penalties.cases import CASES, Case, seeded
from tests.references import assert_equal

SHARES = ((0, 8), (8, 21), (0, 0), (0, 21))
"""Rows of the ranks: unequal, then all of them on the second."""


def work(rank: int, folder: str) -> None:
    """Check every case; what failed is written to a file, one line each, so that one spawn tells of all of them."""
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    meeting = {"init_method": f"file://{folder}/meeting", "timeout": timedelta(seconds=300)}
    dist.init_process_group("gloo", rank=rank, world_size=2, **meeting)
    failures = []
    for case in CASES:
        for check in (same_number, same_parameter_gradients, same_state, local_number):
            try:
                check(case, rank)
            except AssertionError as error:
                failures.append(f"{case} {check.__name__}: {error}")
    Path(folder, f"rank{rank}").write_text("\n".join([*failures, "done"]))
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # now and then a thread of gloo's outlives the group and aborts the interpreter's own way out


def share(inputs: tuple[Tensor, ...], rank: int, step: int = 0) -> tuple[Tensor, ...]:
    """This rank's rows of a batch."""
    start, stop = SHARES[2 * (step % 2) + rank]
    return tuple(tensor[start:stop] for tensor in inputs)


def same_number(case: Case, rank: int) -> None:
    together, alone = case.make(), case.make(gather=False)
    for step in range(3):
        inputs = case.batch(step)
        features, logits, targets, domains = share(inputs, rank, step)
        narrow = targets.to(torch.int16) if case.loss == "cross_entropy" else targets
        mine = seeded(together, features, logits, narrow, domains.to(torch.int16))
        assert_equal(mine, seeded(alone, *inputs), 1e-12)
    terms = seeded(together.terms, *share(inputs, rank))
    assert_equal(torch.stack(list(terms.values())), torch.stack(list(seeded(alone.terms, *inputs).values())), 1e-12)


def same_parameter_gradients(case: Case, rank: int) -> None:
    unused = "logits" not in case.reaches
    whole, parts = Model(case), DistributedDataParallel(Model(case), find_unused_parameters=unused)
    alone, together = case.make(gather=False), case.make()
    for step in range(3):
        inputs = case.batch(step)
        expected = train(whole, alone, inputs)
        found = train(parts, together, share(inputs, rank))
        for mine, its in zip(found, expected, strict=True):
            assert_equal(mine, its, 1e-11)


def same_state(case: Case, rank: int) -> None:
    penalty = case.make()
    for step in range(2):
        penalty(*share(case.batch(step), rank))
    for buffer in penalty.buffers():
        theirs = [torch.empty_like(buffer) for _ in range(2)]
        dist.all_gather(theirs, buffer)
        assert torch.equal(*theirs), "ranks remember different things"


def local_number(case: Case, rank: int) -> None:
    inputs = share(case.batch(balance="balanced"), rank)
    local = seeded(case.make(gather=False), *inputs)
    both = [torch.empty_like(local) for _ in range(2)]
    dist.all_gather(both, local)
    gathered = seeded(case.make(), *inputs)
    assert both[0] != both[1], "two different batches, one number"
    assert local != gathered, "gather=False gathers"


class Model(nn.Module):
    """A small encoder and a linear head, the same on all ranks."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        features, logits = case.batch()[:2]
        torch.manual_seed(1)
        self.encoder = nn.Sequential(nn.Linear(features.shape[1], 5), nn.Tanh()).double()
        self.head = nn.Linear(5, logits.shape[1]).double()

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        features = self.encoder(inputs)
        return features, self.head(features)


def train(model: nn.Module, penalty: DomainPenalty, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """Gradients of the penalty in the parameters."""
    model.zero_grad()
    features, logits = model(inputs[0])
    seeded(penalty, features, logits, *inputs[2:]).backward()
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]
