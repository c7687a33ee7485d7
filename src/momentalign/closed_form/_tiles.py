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

Rows = tuple[Tensor, ...]

Reduction = Callable[[Rows, Rows | None], list[Tensor]]
"""Takes the rows and the columns of a tile to numbers or matrices; None for columns: the rows with themselves."""


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
        return reduction(tensors, None)
    if torch.compiler.is_compiling():
        parts = [
            checkpoint(_with_mirror, reduction, *pair, use_reentrant=False, preserve_rng_state=False)
            for pair in _pairs(tensors, tile)
        ]
        return [torch.stack(results).sum(0) for results in zip(*parts, strict=True)]
    return list(_Tiled.apply(reduction, tile, *tensors))  # type: ignore[no-untyped-call]


def _pairs(tensors: Rows, tile: int) -> Iterator[tuple[Rows, Rows | None]]:
    blocks = list(zip(*(tensor.split(tile) for tensor in tensors), strict=True))
    for i, rows in enumerate(blocks):
        yield rows, None
        for columns in blocks[i + 1 :]:
            yield rows, columns


def _with_mirror(reduction: Reduction, rows: Rows, columns: Rows | None) -> list[Tensor]:
    results = reduction(rows, columns)
    return [result + result.t() for result in results] if columns else results


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
            # Someone differentiates twice: one tile of everything, by autograd. Through views, because one tensor may
            # have been made of another, and the gradient of each is to hold the others fixed.
            tensors = tuple(tensor.view_as(tensor) for tensor in tensors)
            inputs = [tensors[k] for k in wanted]
            found = torch.autograd.grad(
                ctx.reduction(tensors, None), inputs, grads, create_graph=True, allow_unused=True
            )
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
    rows: Rows,
    columns: Rows | None,
    row_sums: Rows,
    column_sums: Rows | None,
    wanted: list[int],
    grads: tuple[Tensor, ...],
) -> None:
    """Compute one tile again and add its gradients to those of its rows and columns."""

    def leaves(block: Rows) -> Rows:
        return tuple(tensor.detach().requires_grad_(k in wanted) for k, tensor in enumerate(block))

    own, others = leaves(rows), leaves(columns) if columns else None
    with torch.enable_grad():
        results = _with_mirror(reduction, own, others)
    live = [(result, grad) for result, grad in zip(results, grads, strict=True) if result.requires_grad]
    inputs = [own[k] for k in wanted] + [others[k] for k in wanted if others]
    sums = [row_sums[k] for k in wanted] + [column_sums[k] for k in wanted if column_sums]
    found = torch.autograd.grad([r for r, _ in live], inputs, [g for _, g in live], allow_unused=True)
    for total, gradient in zip(sums, found, strict=True):
        if gradient is not None:
            total.add_(gradient)
