"""The sum of a penalty's terms at the weights in force, which a count of calls on the device decides.

At the size of a mini-batch the number of operations is the cost. On a CUDA device with Triton this is one forward and
one backward, for any penalty.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from momentalign._triton import are_single, can_use
from momentalign.penalties import _weighing_kernel as kernel

_TERMS = 3
"""Terms that the kernel takes."""


def weigh(
    terms: Sequence[Tensor], weights: Sequence[float], *, initial: float, start: int, step: Tensor, counts: bool
) -> Tensor:
    """Add terms at their weights, or before the step `start` all at the initial weight; nothing is read back.

    Args:
        terms: Scalars, one at least.
        weights: Of each, from `start` on.
        initial: Of all until then.
        start: When the weights take effect; 0 for at once.
        step: Calls so far, a scalar integer.
        counts: Whether to count this one.

    Returns:
        Scalar.
    """
    if _can_fuse(terms):
        fused: Tensor = _Weigh.apply(step, tuple(weights), initial, start, counts, *terms)[0]  # type: ignore[no-untyped-call]
        return fused
    total = _weighted_sum(terms, weights)
    if start > 0:
        reached = step >= start
        early = _weighted_sum(terms, [initial] * len(terms)) if initial else None
        total = total * reached if early is None else torch.where(reached, total, early)
    if counts:
        step.add_(1)
    return total


def _weighted_sum(terms: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    total = terms[0] if weights[0] == 1 else weights[0] * terms[0]
    for weight, term in zip(weights[1:], terms[1:], strict=True):
        total = torch.add(total, term, alpha=weight)
    return total


def _can_fuse(terms: Sequence[Tensor]) -> bool:
    """Whether the kernel takes it: float32 on CUDA, with Triton, few terms, and not where a compiler does it."""
    return can_use(*terms) and are_single(*terms) and len(terms) <= _TERMS


class _Weigh(torch.autograd.Function):
    @staticmethod
    def forward(
        step: Tensor, weights: tuple[float, ...], initial: float, start: int, counts: bool, *terms: Tensor
    ) -> tuple[Tensor, Tensor]:
        total, in_force = torch.empty_like(terms[0]), terms[0].new_empty(len(terms))
        more = _TERMS - len(terms)  # not looked at
        kernel.weigh[(1,)](
            total, in_force, step, *terms, *terms[:1] * more, *weights, *(0.0,) * more, initial, start,
            TERMS=len(terms), COUNTS=counts, num_warps=1,
        )  # fmt: skip
        return total, in_force

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        (in_force,) = ctx.saved_tensors
        slopes = [None] * len(in_force) if grad is None else (grad * in_force).unbind()
        return None, None, None, None, None, *slopes
