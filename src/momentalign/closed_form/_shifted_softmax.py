"""Softmax probabilities relative to the likeliest class, value and gradient exact next to one-hot.

Legend: P (n, C) probabilities, m the likeliest class, O its one-hot vector; R = P − O and π = 1 − p_m.

Taken by subtraction R_m and π would lose the digits of a small π, so π is summed over the other classes. Up to
constants R is P and π is −p_m, so the gradient with respect to P is that of R less that of π at m; a softmax does not
change when a constant is added to it, and the one that makes it zero at m leaves nothing to cancel.
"""

from typing import Any

import torch
from torch import Tensor


def shifted_softmax(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """R (n, C), π (n, 1) and m (n,) of the legend."""
    likeliest = logits.argmax(1)
    R, mass, _ = _ShiftedSoftmax.apply(logits, likeliest)  # type: ignore[no-untyped-call]
    return R, mass, likeliest


class _ShiftedSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(logits: Tensor, likeliest: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # Nothing in place: torch 2.11 compiles a wrong gradient for a function that writes over what it returns.
        place, P = likeliest[:, None], logits.softmax(1)
        others = P.scatter(1, place, 0.0)
        mass = others.sum(1, keepdim=True)
        return others.scatter(1, place, -mass), mass, P

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[2])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, output[2])

    @staticmethod
    def backward(
        ctx: Any, dR: Tensor | None, dmass: Tensor | None, _: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        if dR is None and dmass is None:
            return None, None
        logits, likeliest, P = ctx.saved_tensors
        place = likeliest[:, None]
        dR = torch.zeros_like(P) if dR is None else dR
        at_likeliest = dR.gather(1, place)
        dP = (dR - (at_likeliest if dmass is None else at_likeliest - dmass)).scatter(1, place, 0.0)
        if torch.is_grad_enabled():
            P = logits.softmax(1)
            return torch.mul(P, dP - (P * dP).sum(1, keepdim=True)), None
        gradient: Tensor = torch.ops.aten._softmax_backward_data(dP, P, 1, P.dtype)
        return gradient, None
