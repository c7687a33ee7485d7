"""Penalties by definition in float64: residual tensors from torch.func, dense derivatives, loops over domains.

Each returns a value by term, and a magnitude of the numbers that cancel in it, for tolerances. Nothing here knows a
closed form.
"""

from collections.abc import Callable
from itertools import combinations

import torch
from torch import Tensor
from torch.func import jacrev, vmap

Term = tuple[Tensor, Tensor]
"""Value and magnitude."""


def sample_loss(loss: str, logits: Tensor, target: Tensor) -> Tensor:
    """Loss of one sample with logits (C,), in operations that torch differentiates to any order."""
    if loss == "cross_entropy":
        return logits.logsumexp(0) - (logits * target).sum()
    if loss == "logistic":
        return torch.stack([torch.zeros_like(logits), logits]).logsumexp(0).sum() - (target * logits).sum()
    return (logits - target).square().sum() / 2


def encoded(loss: str, logits: Tensor, targets: Tensor) -> Tensor:
    """Targets (n, C): one-hot for cross-entropy."""
    if loss == "cross_entropy":
        return torch.nn.functional.one_hot(targets, logits.shape[1]).to(logits.dtype)
    return targets.to(logits.dtype).reshape(logits.shape)


def residuals(order: int, loss: str, logits: Tensor, targets: Tensor) -> Tensor:
    """Derivatives of each sample's loss by its own logits, shape (n, C, …, C)."""
    function: Callable[[Tensor, Tensor], Tensor] = lambda z, y: sample_loss(loss, z, y)  # noqa: E731
    for _ in range(order):
        function = jacrev(function)
    return vmap(function)(logits, encoded(loss, logits, targets))


def constant(features: Tensor, bias: bool) -> Tensor:
    """Features with a last column of ones if there is a bias."""
    return torch.cat([features, torch.ones_like(features[:, :1])], 1) if bias else features


def samples(order: int, loss: str, bias: bool, features: Tensor, logits: Tensor, targets: Tensor) -> Tensor:
    """Derivatives of each sample's loss by the head, flattened: (n, C^r D^r)."""
    X, found = constant(features, bias), residuals(order, loss, logits, targets).flatten(1)
    for _ in range(order):
        found = (found[:, :, None] * X[:, None, :]).flatten(1)
    return found


def means(values: Tensor, domains: Tensor) -> Tensor:
    """Mean of the rows of each domain, (K, …)."""
    return torch.stack([values[domains == label].mean(0) for label in domains.unique()])


def spread_of(vectors: Tensor) -> Tensor:
    """Mean squared distance of the rows from their mean."""
    return (vectors - vectors.mean(0)).square().flatten(1).sum(1).mean()


def largest(vectors: Tensor) -> Tensor:
    """Largest squared length of a row."""
    return vectors.detach().square().flatten(1).sum(1).max()


def alignment(
    order: int, scaling: str, loss: str, bias: bool, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor
) -> Term:
    """Spread of the domains' derivatives of an order, scaled."""
    D = samples(order, loss, bias, features, logits, targets)
    value, magnitude = spread_of(means(D, domains)), largest(D)
    C, d = logits.shape[1], features.shape[1] + bias
    if scaling == "relative":
        energy = means(D.square().sum(1), domains).mean()
        if energy == 0:
            return 0 * value, magnitude
        return value / energy, magnitude / energy.detach()
    by = {"none": 1, "classes": C**order, "parameters": (d * C) ** 2}[scaling]
    return value / by, magnitude / by


def fishr(loss: str, bias: bool, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor) -> Term:
    """Spread of the variances of the samples' gradients, a mean over coordinates."""
    D = samples(1, loss, bias, features, logits, targets)
    variances = torch.stack([D[domains == label].var(0, correction=0) for label in domains.unique()])
    return spread_of(variances) / D.shape[1], D.detach().square().max().square()


def irm(loss: str, bias: bool, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor) -> Term:
    """Mean squared norm of the domains' gradients."""
    D = samples(1, loss, bias, features, logits, targets)
    return means(D, domains).square().sum(1).mean(), largest(D)


def hgp(loss: str, bias: bool, center: str, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor) -> Term:
    """Distance of Hessian-gradient products from their mean, or from the product of the mean Hessian and gradient."""
    gradients = means(samples(1, loss, bias, features, logits, targets), domains)
    X, A = constant(features, bias), residuals(2, loss, logits, targets)
    each = torch.einsum("nab,nx,ny->naxby", A, X, X)
    size = gradients.shape[1]
    hessians = means(each.reshape(len(X), size, size), domains)
    products = torch.einsum("kij,kj->ki", hessians, gradients)
    magnitude = hessians.detach().square().sum((1, 2)).max() * largest(gradients)
    if center == "mean":
        return spread_of(products), magnitude
    pooled = (hessians.mean(0) @ gradients.mean(0)).detach()
    return (products - pooled).square().sum(1).mean(), magnitude


def hutchinson(loss: str, bias: bool, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor) -> Term:
    """Spread of the diagonals of the domains' Hessians."""
    A = residuals(2, loss, logits, targets).diagonal(dim1=1, dim2=2)
    D = (A[:, :, None] * constant(features, bias).square()[:, None, :]).flatten(1)
    return spread_of(means(D, domains)), largest(D)


def vrex(loss: str, logits: Tensor, targets: Tensor, domains: Tensor) -> Term:
    """Variance of the domains' losses."""
    losses = vmap(lambda z, y: sample_loss(loss, z, y))(logits, encoded(loss, logits, targets))
    return spread_of(means(losses, domains)[:, None]), losses.detach().abs().max().square()


def coral(features: Tensor, domains: Tensor, eps: float) -> tuple[Term, Term]:
    """Squared distances of means and of covariances, means over pairs and coordinates; features rounded by `eps`."""
    centred = features - features.mean(0)
    labels, d = domains.unique(), features.shape[1]
    own = [centred[domains == label] for label in labels]
    average = [rows.mean(0) for rows in own]
    covariance = [(rows - rows.mean(0)).T @ (rows - rows.mean(0)) / max(len(rows) - 1, 1) for rows in own]
    pairs = list(combinations(range(len(labels)), 2))
    zero, size = features.new_zeros(()), centred.detach().square().sum(1).max()
    first = sum(((average[a] - average[b]).square().mean() for a, b in pairs), zero) / max(len(pairs), 1)
    second = sum(((covariance[a] - covariance[b]).square().mean() for a, b in pairs), zero) / max(len(pairs), 1)
    offset = features.detach().square().sum(1).max()
    size = size + eps * offset  # what is lost by centring
    return (first, size), (second, size.square() * d)


def mmd(features: Tensor, domains: Tensor, eps: float) -> Term:
    """Maximum mean discrepancy, a mean over pairs of domains, where distances are computed with rounding `eps`."""
    centred = features - features.mean(0)
    squares = (centred[:, None, :] - centred[None, :, :]).square().sum(2)
    gammas = [10.0**power for power in range(-3, 4)]
    kernel = sum((torch.exp(-gamma * squares) for gamma in gammas), torch.zeros_like(squares))
    sizes = centred.detach().square().sum(1)
    error = 32 * eps * (sizes[:, None] + sizes)
    lowest, highest = (squares.detach() - error).clamp(min=0), squares.detach() + error
    off = sum((torch.exp(-gamma * lowest) - torch.exp(-gamma * highest) for gamma in gammas), torch.zeros_like(error))
    labels = domains.unique()
    member = torch.stack([(domains == label).double() for label in labels])
    E = member / member.sum(1, keepdim=True)
    M = E @ kernel @ E.T
    values = [M[a, a] + M[b, b] - 2 * M[a, b] for a, b in combinations(range(len(labels)), 2)]
    return sum(values, features.new_zeros(())) / max(len(values), 1), 7 + off.max() / eps
