"""What one rank of two does: every algorithm that may, on its half of each mini-batch, against one process."""

import os
import warnings
from datetime import timedelta
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from momentalign.algorithms import Batch, algorithm_names
from tests.algorithms.tiny import ROWS, K, build, descents, run
from tests.references import assert_equal

STEPS = 4


def work(rank: int, folder: str) -> None:
    """Check every algorithm; what failed is written to a file, one line each, so that one spawn tells of all."""
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    alone = {name: train(name, rank=None) for name in algorithm_names() if build(name).distributed}
    meeting = {"init_method": f"file://{folder}/meeting", "timeout": timedelta(seconds=300)}
    dist.init_process_group("gloo", rank=rank, world_size=2, **meeting)
    failures = []
    for name, (losses, parameters) in alone.items():
        my_losses, my_parameters = train(name, rank)
        dist.all_reduce(my_losses)
        try:
            assert_equal(my_losses / 2, losses, 1e-10)
            for mine, its in zip(my_parameters, parameters, strict=True):
                assert_equal(mine, its, 1e-9)
        except AssertionError as error:
            failures.append(f"{name}: {error}")
    Path(folder, f"rank{rank}").write_text("\n".join([*failures, f"{len(alone)} done"]))
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # now and then a thread of gloo's outlives the group and aborts the interpreter's own way out


def train(name: str, rank: int | None) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Logged losses and last parameters."""
    algorithm = build(name, STEPS)
    network = algorithm.network
    optimizers = descents(algorithm, 1e-2)
    if rank is not None:
        algorithm.network = DistributedDataParallel(network)
    share = {} if rank is None else {"share": partial(half, rank=rank)}
    losses = [logged["loss"] for logged in run(algorithm, optimizers, range(STEPS), **share)]
    return torch.stack(losses), [parameter.detach() for parameter in network.parameters()]


def half(rows: Batch, rank: int) -> Batch:
    """A rank's rows of each domain."""
    mine = torch.arange(K * ROWS).reshape(K, 2, ROWS // 2)[:, rank].flatten()
    return Batch(rows.inputs[mine], rows.targets[mine], rows.domains[mine])
