"""The published recipe for linear heads: stochastic gradient descent on mini-batches in random order."""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from momentalign._types import Array, Integers
from momentalign.closed_form import mean_over_domains
from momentalign.linear._head import LinearHead
from momentalign.linear._penalty_objective import one_torch_thread
from momentalign.linear._solver import Solution

BatchPenalty = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Penalty of a batch from features, logits, targets and domains."""


def fit_sgd(
    features: NDArray[np.floating],
    targets: Integers,
    domains: Integers | None,
    *,
    classes: int,
    penalty: BatchPenalty | None = None,
    reduce: Callable[[Tensor, Tensor], Tensor] | None = None,
    l2: float = 0.0,
    bias: bool = False,
    epochs: int = 50,
    batch_size: int = 500,
    learning_rate: float = 1e-3,
    seed: int = 0,
    head_seed: int | None = None,
    watch: Callable[[int, float, Array], None] | None = None,
) -> LinearHead:
    r"""Fit a linear classifier by the paper's recipe: far from converged, and different for every seed.

    Every epoch takes the rows in a new order. The loss of a step is the mean over the batch's domains of their mean
    cross-entropy, half of `l2` times the squared norm, and the penalty. There is one row of the head per class also for
    two classes; its L2 is that of their difference, as for the converged solver. A loss or head that is not finite ends
    the fit.

    Args:
        features: Shape (n, d).
        targets: Class indices 0 … C − 1, shape (n,).
        domains: Any integers, shape (n,); None is one domain.
        classes: Number of classes.
        penalty: Added to the loss of each batch, with its annealing.
        reduce: Loss of a batch from its rows' losses (n,) and domains (n,), instead of that mean.
        l2: Weight of half the squared norm of the coefficients.
        bias: Whether the head has one; the published head has none.
        epochs: Passes over the rows.
        batch_size: Rows of a batch.
        learning_rate: Step size.
        seed: Seed of the batch order, and of the initial head unless `head_seed` is given.
        head_seed: Seed of the initial head.
        watch: Called with each step, its loss and the head after it, flattened as for the converged solver.

    Returns:
        The head, with its steps as iterations and the mean loss of the last epoch as its objective.
    """
    order = torch.Generator().manual_seed(seed)
    X, y = torch.tensor(features, dtype=torch.float64), torch.tensor(targets, dtype=torch.long)
    e = torch.zeros_like(y) if domains is None else torch.tensor(domains, dtype=torch.long)
    bound = X.shape[1] ** -0.5  # as in torch.nn.Linear
    head = torch.empty(classes, X.shape[1] + bias, dtype=torch.float64)
    head.uniform_(-bound, bound, generator=order if head_seed is None else torch.Generator().manual_seed(head_seed))
    head.requires_grad_()
    batches = (batch for _ in range(epochs) for batch in torch.randperm(len(X), generator=order).split(batch_size))
    losses: list[float] = []
    sizes: list[int] = []
    with one_torch_thread():
        for step, batch in enumerate(batches):
            coef = head[:, : X.shape[1]]
            logits = X[batch] @ coef.T + (head[:, -1] if bias else 0.0)
            loss = (reduce or mean_over_domains)(cross_entropy(logits, y[batch], reduction="none"), e[batch])
            loss = loss + 0.5 * l2 * _logit_difference(coef).square().sum()
            if penalty is not None:
                loss = loss + penalty(X[batch], logits, y[batch], e[batch])
            (gradient,) = torch.autograd.grad(loss, head)
            with torch.no_grad():
                head -= learning_rate * gradient
            losses.append(loss.item())
            sizes.append(len(batch))
            if not math.isfinite(losses[-1]):
                break
            if watch is not None:
                watch(step, losses[-1], _logit_difference(head.detach()).flatten().numpy().copy())
    finite = bool(head.isfinite().all()) and math.isfinite(losses[-1])
    fitted, epoch = _logit_difference(head.detach()).numpy(), -(-len(X) // batch_size)
    mean = float(np.average(losses[-epoch:], weights=sizes[-epoch:]))
    return LinearHead.of(Solution(fitted, mean, int(np.isfinite(losses).sum()), finite), fitted.shape, bias=bias)


def _logit_difference(head: Tensor) -> Tensor:
    """One row for two classes: the difference of their logits."""
    return head[1:] - head[:1] if len(head) == 2 else head
