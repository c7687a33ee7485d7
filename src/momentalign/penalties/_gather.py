"""Gather the batches of all ranks into one, differentiably."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from momentalign._batch import HeadBatch


def gather_batch(batch: HeadBatch) -> HeadBatch:
    """Concatenate the rows of all ranks in rank order; ranks may hold different numbers of rows.

    Backward sums the gradients that all ranks have of a row. Every rank computes the same penalty, so a rank's
    parameters get its rows' share of the gradient times the number of ranks, and the average that
    DistributedDataParallel takes over ranks is the gradient of the penalty on the whole batch.
    """
    size = torch.tensor([len(batch.features)], device=batch.features.device)
    sizes = [torch.empty_like(size) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, size)
    rows = torch.cat(sizes).tolist()
    width = batch.features.shape[1]
    # One collective for both, so that backward has one as well and no order of several to agree on.
    both = _gather(torch.cat([batch.features, batch.logits], 1), rows)
    targets = batch.targets if batch.targets.is_floating_point() else batch.targets.long()  # int16 cannot be sent
    return HeadBatch(both[:, :width], both[:, width:], _gather(targets, rows), _gather(batch.domains.long(), rows))


def _gather(tensor: Tensor, rows: list[int]) -> Tensor:
    padded = torch.cat([tensor, tensor.new_zeros(max(rows) - len(tensor), *tensor.shape[1:])])
    parts: Tensor = _AllGather.apply(padded)  # type: ignore[no-untyped-call]
    return torch.cat([part[:length] for part, length in zip(parts, rows, strict=True)])


class _AllGather(torch.autograd.Function):
    # torch.distributed.nn.functional.all_gather computes the same, but torch 2.13 deprecates it for a private module.

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        parts = tensor.new_empty(dist.get_world_size(), *tensor.shape)
        dist.all_gather(list(parts), tensor)
        return parts

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        total = gradient.contiguous().clone()
        dist.all_reduce(total)
        return total[dist.get_rank()]
