"""The published recipe for a linear probe: stochastic gradient descent on batches in random order."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from momentalign.closed_form import mean_over_domains
from momentalign.linear._path import LinearHead
from momentalign.linear._rows import Integers
from momentalign.penalties import MomentAlignment


class Descent(NamedTuple):
    """How steps ended: their number, the last loss, the last epoch's mean loss, and whether all was finite."""

    steps: int
    loss: float
    mean_loss: float
    finite: bool


def fit_sgd(
    features: NDArray[np.floating],
    targets: Integers,
    domains: Integers | None,
    order_weights: Mapping[int, float],
    *,
    classes: int,
    l2: float = 0.0,
    scaling: str = "parameters",
    bias: bool = False,
    epochs: int = 50,
    batch_size: int = 500,
    learning_rate: float = 1e-3,
    anneal_steps: int = 0,
    seed: int = 0,
) -> LinearHead:
    r"""Fit a linear classifier by the paper's recipe: far from converged, and another answer for another seed.

    Every epoch takes the rows in a new order. A step's loss is the mean over the batch's domains of their mean
    cross-entropy, half of `l2` times the squared norm, and the penalties once `anneal_steps` have passed. There is one
    head a class also for two classes, and its L2 is that of their difference, as for the other solver.

    Args:
        features: Shape (n, d).
        targets: Class indices 0 … C − 1, shape (n,).
        domains: Where each row came from: any integers, shape (n,); None is one domain.
        order_weights: Weight of each order, `{1: w1, 2: w2, 3: w3}`.
        classes: C.
        l2: Weight of half the squared norm of the coefficients.
        scaling: `"none"`, `"classes"`, `"parameters"` or `"relative"`; the published weights are for the third.
        bias: Whether the head has one; the published head has none.
        epochs: Passes over the rows.
        batch_size: Rows of a batch.
        learning_rate: Of the steps.
        anneal_steps: Steps before the penalties count.
        seed: Of the first head and of the batches' order.

    Returns:
        The head, with the epochs as its iterations and the mean loss of the last epoch as its objective.

    Raises:
        ValueError: The loss stopped being a number.
    """
    generator = torch.Generator().manual_seed(seed)
    X, y = torch.tensor(features, dtype=torch.float64), torch.tensor(targets, dtype=torch.long)
    e = torch.zeros_like(y) if domains is None else torch.tensor(domains, dtype=torch.long)
    weights = {order: weight for order, weight in order_weights.items() if weight and bool((e != e[0]).any())}
    penalty = None
    if weights:
        # Values have been checked; and a batch that happens to hold one domain is no cause for a warning here.
        penalty = MomentAlignment(weights, anneal_steps=anneal_steps, bias=bias, scaling=scaling, validate=False)
    head = first_head(classes, X.shape[1], generator, bias=bias)

    def loss_of(batch: Tensor) -> Tensor:
        coef = head[:, : X.shape[1]]
        logits = X[batch] @ coef.T + (head[:, -1] if bias else 0.0)
        losses = cross_entropy(logits, y[batch], reduction="none")
        loss = mean_over_domains(losses, e[batch]) + 0.5 * l2 * logit_difference(coef).square().sum()
        return loss if penalty is None else loss + penalty(X[batch], logits, y[batch], e[batch])

    found = descend(
        loss_of, head, len(X), epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, order=generator
    )
    if not found.finite:
        raise ValueError(
            f"The loss should stay finite, but stopped being a number at step {found.steps}. "
            f"Use a smaller learning_rate than {learning_rate:g} or smaller weights, or scale the features."
        )
    result = logit_difference(head.detach()).numpy()
    coef, intercept = (result[:, :-1], result[:, -1]) if bias else (result, np.zeros(len(result)))
    return LinearHead(coef.copy(), intercept.copy(), dict(order_weights), found.mean_loss, epochs, found.finite)


def first_head(classes: int, dimension: int, generator: torch.Generator, *, bias: bool = False) -> Tensor:
    """A head to start from, (C, d) or (C, d + 1), uniform within 1/√d as in `torch.nn.Linear`."""
    bound = dimension**-0.5
    head = torch.empty(classes, dimension + bias, dtype=torch.float64)
    return head.uniform_(-bound, bound, generator=generator).requires_grad_()


def logit_difference(head: Tensor) -> Tensor:
    """One row for two classes: what their logits differ by."""
    return head[1:] - head[:1] if len(head) == 2 else head


def descend(
    loss_of: Callable[[Tensor], Tensor],
    head: Tensor,
    rows: int,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    order: torch.Generator,
    watch: Callable[[int, float], None] | None = None,
) -> Descent:
    """Move a head down the gradients of batches, until a loss or the head is not finite.

    Args:
        loss_of: Loss of a batch, from the places of its rows; a function of the head.
        head: Changed in place.
        rows: Number n.
        epochs: Passes over the rows, each in a new order.
        batch_size: Rows of a batch.
        learning_rate: Of the steps.
        order: Source of the rows' order.
        watch: Told the step and its loss once the head has moved.

    Returns:
        How it ended.
    """
    step, value, total = 0, 0.0, 0.0
    for _ in range(epochs):
        total = 0.0
        for batch in torch.randperm(rows, generator=order).split(batch_size):
            loss = loss_of(batch)
            (gradient,) = torch.autograd.grad(loss, head)
            with torch.no_grad():
                head -= learning_rate * gradient
            value = loss.item()
            if not math.isfinite(value):
                return Descent(step, value, value, False)
            if watch is not None:
                watch(step, value)
            total += value * len(batch)
            step += 1
    return Descent(step, value, total / rows, bool(head.isfinite().all()))
