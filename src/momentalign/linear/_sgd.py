"""The published recipe for a linear probe: stochastic gradient descent on batches in random order."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from momentalign.closed_form import mean_over_domains
from momentalign.linear._path import LinearHead
from momentalign.linear._rows import Integers
from momentalign.penalties import MomentAlignment


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
    """
    generator = torch.Generator().manual_seed(seed)
    X, y = torch.tensor(features, dtype=torch.float64), torch.tensor(targets, dtype=torch.long)
    e = torch.zeros_like(y) if domains is None else torch.tensor(domains, dtype=torch.long)
    weights = {order: weight for order, weight in order_weights.items() if weight and bool((e != e[0]).any())}
    penalty = None
    if weights:
        # Values have been checked; and a batch that happens to hold one domain is no cause for a warning here.
        penalty = MomentAlignment(weights, anneal_steps=anneal_steps, bias=bias, scaling=scaling, validate=False)
    bound = X.shape[1] ** -0.5
    head = torch.empty(classes, X.shape[1] + bias, dtype=torch.float64).uniform_(-bound, bound, generator=generator)
    head.requires_grad_()
    optimizer = torch.optim.SGD([head], lr=learning_rate)
    total = 0.0
    for _ in range(epochs):
        total = 0.0
        for batch in torch.randperm(len(X), generator=generator).split(batch_size):
            coef = head[:, : X.shape[1]]
            logits = X[batch] @ coef.T + (head[:, -1] if bias else 0.0)
            losses = cross_entropy(logits, y[batch], reduction="none")
            loss = mean_over_domains(losses, e[batch]) + 0.5 * l2 * _difference(coef).square().sum()
            if penalty is not None:
                loss = loss + penalty(X[batch], logits, y[batch], e[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(batch)
    result = _difference(head.detach()).numpy()
    coef_, intercept = (result[:, :-1], result[:, -1]) if bias else (result, np.zeros(len(result)))
    return LinearHead(coef_.copy(), intercept.copy(), dict(order_weights), total / len(X), epochs, True)


def _difference(head: Tensor) -> Tensor:
    """One row for two classes: what their logits differ by."""
    return head[1:] - head[:1] if len(head) == 2 else head
