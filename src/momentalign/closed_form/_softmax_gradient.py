"""First residual of the cross-entropy alone, P − Y, in nine operations forward and backward.

Legend: P (n, C) probabilities, Y (n, C) one-hot targets, G = P − Y.

At the target p − 1 is minus the sum of the other probabilities, so a sure and right prediction keeps its digits without
knowing the likeliest class. Backward takes the entry of the likeliest class from the gradient, which a softmax does not
notice, so that nothing has to cancel where a probability is next to one.
"""

from typing import Any

import torch
from torch import Tensor


def softmax_gradient(logits: Tensor, targets: Tensor) -> Tensor:
    """G of the legend, shape (n, C), for class indices `targets` (n,)."""
    G, _ = _SoftmaxGradient.apply(logits, targets)  # type: ignore[no-untyped-call]
    return G  # type: ignore[no-any-return]


def subtract_targets(P: Tensor, targets: Tensor) -> Tensor:
    """G of the legend from the probabilities."""
    right = targets.long()[:, None]
    others = P.scatter(1, right, 0.0)
    return others.scatter(1, right, -others.sum(1, keepdim=True))


class _SoftmaxGradient(torch.autograd.Function):
    @staticmethod
    def forward(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        P = logits.softmax(1)
        return subtract_targets(P, targets), P

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, dG: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, None]:
        if dG is None:
            return None, None
        logits, P = ctx.saved_tensors
        dP = dG - dG.gather(1, P.argmax(1, keepdim=True))
        if torch.is_grad_enabled():
            P = logits.softmax(1)
            return torch.mul(P, dP - (P * dP).sum(1, keepdim=True)), None
        gradient: Tensor = torch.ops.aten._softmax_backward_data(dP, P, 1, P.dtype)
        return gradient, None
