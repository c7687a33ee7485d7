"""One batch out of those of all ranks, differentiably."""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn.functional import all_gather

from momentalign._validation import Batch


def is_distributed() -> bool:
    """Whether several ranks work together."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def gather_batch(batch: Batch) -> Batch:
    """Gather the rows of all ranks, in the ranks' order; ranks may hold different numbers of rows.

    The gather's backward sums over the ranks what each of them wants of a row. Every rank computes the same
    penalty, so a rank's parameters get its rows' share of the gradient times the number of ranks, and the average
    that DistributedDataParallel takes over ranks is the gradient of the penalty on the whole batch.
    """
    size = torch.tensor([len(batch.features)], device=batch.features.device)
    sizes = [torch.empty_like(size) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, size)
    rows = torch.cat(sizes).tolist()
    width = batch.features.shape[1]
    # One collective for both, so that there is one in backward and no order of several to agree on.
    both = _gather(torch.cat([batch.features, batch.logits], 1), rows)
    return Batch(both[:, :width], both[:, width:], _gather(batch.targets, rows), _gather(batch.domains, rows))


def _gather(tensor: Tensor, rows: list[int]) -> Tensor:
    padded = torch.cat([tensor, tensor.new_zeros(max(rows) - len(tensor), *tensor.shape[1:])])
    if torch.is_grad_enabled() and tensor.requires_grad:
        parts = list(all_gather(padded))
    else:
        parts = [torch.empty_like(padded) for _ in rows]
        dist.all_gather(parts, padded)
    return torch.cat([part[:length] for part, length in zip(parts, rows, strict=True)])
