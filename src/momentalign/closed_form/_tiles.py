"""Sums over all pairs of n rows, in tiles: memory for one tile, not for n x n.

Tiles lie on and above the diagonal; a tile above it stands for its mirror image as well. In backward each tile is
computed again and its gradient added to that of its rows at once, so memory grows as the rows plus one tile. Few rows
are one tile of plain operations: nothing is computed twice, and it compiles and captures.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

TILE = 2048

Reduction = Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], list[Tensor]]
"""Takes the rows and the columns of a tile (the same object on the diagonal) to numbers or matrices."""


def reduce_tiles(reduction: Reduction, tensors: tuple[Tensor, ...], tile: int = TILE) -> list[Tensor]:
    """Sum a reduction over all pairs of rows.

    Args:
        reduction: Its results for a tile are transposed, where they are matrices, for the mirrored tile.
        tensors: What it needs of the n rows, each of shape (n, ...); differentiable in those of floating point.
        tile: Rows and columns of a tile.

    Returns:
        The summed results.
    """
    if len(tensors[0]) <= tile:
        return reduction(tensors, tensors)
    if torch.compiler.is_compiling():
        parts = [
            checkpoint(_with_mirror, reduction, *pair, use_reentrant=False, preserve_rng_state=False)
            for pair in _pairs(tensors, tile)
        ]
        return [torch.stack(results).sum(0) for results in zip(*parts, strict=True)]
    return list(_Tiled.apply(reduction, tile, *tensors))  # type: ignore[no-untyped-call]


def _pairs(tensors: tuple[Tensor, ...], tile: int) -> Iterator[tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]:
    blocks = list(zip(*(tensor.split(tile) for tensor in tensors), strict=True))
    for i, rows in enumerate(blocks):
        for columns in blocks[i:]:
            yield rows, columns


def _with_mirror(reduction: Reduction, rows: tuple[Tensor, ...], columns: tuple[Tensor, ...]) -> list[Tensor]:
    results = reduction(rows, columns)
    return results if columns is rows else [result + result.t() for result in results]


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, reduction: Reduction, tile: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.reduction, ctx.tile = reduction, tile
        ctx.save_for_backward(*tensors)
        parts = [_with_mirror(reduction, *pair) for pair in _pairs(tensors, tile)]
        return tuple(torch.stack(results).sum(0) for results in zip(*parts, strict=True))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        wanted = [k for k, needed in enumerate(ctx.needs_input_grad[2:]) if needed]
        totals = [torch.zeros_like(tensor) if k in wanted else None for k, tensor in enumerate(tensors)]
        if torch.is_grad_enabled():
            # Someone differentiates twice: one tile of everything, by autograd.
            inputs = [tensors[k] for k in wanted]
            found = torch.autograd.grad(ctx.reduction(tensors, tensors), inputs, grads, create_graph=True, allow_unused=True)
            for k, gradient in zip(wanted, found, strict=True):
                totals[k] = gradient
            return None, None, *totals
        sums = [tensor if total is None else total for tensor, total in zip(tensors, totals, strict=True)]
        for (rows, columns), (row_sums, column_sums) in zip(
            _pairs(tensors, ctx.tile), _pairs(tuple(sums), ctx.tile), strict=True
        ):
            _add_gradients(ctx.reduction, rows, columns, row_sums, column_sums, wanted, grads)
        return None, None, *totals


def _add_gradients(
    reduction: Reduction,
    rows: tuple[Tensor, ...],
    columns: tuple[Tensor, ...],
    row_sums: tuple[Tensor, ...],
    column_sums: tuple[Tensor, ...],
    wanted: list[int],
    grads: tuple[Tensor, ...],
) -> None:
    """Compute one tile again and add its gradients to those of its rows and columns."""

    def leaves(block: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(tensor.detach().requires_grad_(k in wanted) for k, tensor in enumerate(block))

    own, targets = leaves(rows), [row_sums[k] for k in wanted]
    others = own
    if columns is not rows:
        others = leaves(columns)
        targets += [column_sums[k] for k in wanted]
    inputs = [own[k] for k in wanted] + ([] if others is own else [others[k] for k in wanted])
    with torch.enable_grad():
        results = _with_mirror(reduction, own, others)
    live = [(result, grad) for result, grad in zip(results, grads, strict=True) if result.requires_grad]
    found = torch.autograd.grad([r for r, _ in live], inputs, [g for _, g in live], allow_unused=True)
    for total, gradient in zip(targets, found, strict=True):
        if gradient is not None:
            total.add_(gradient)
