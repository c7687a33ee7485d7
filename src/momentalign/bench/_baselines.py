"""Baselines: the same quantities as other implementations compute them.

Each takes features (n, d), the head's weight (C, d) and bias (C,), targets and domains, and returns a differentiable
scalar. Legend: H_e, g_e Hessian and gradient of a domain's mean cross-entropy with respect to the head.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

HeadPenalty = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""A penalty as a function of features, weight, bias, targets and domains."""


def dense_hessian(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
    """Gradients and Cd x Cd Hessians built for each domain: α = β = 1."""
    X, P, R = _pieces(features, weight, bias, targets)
    total = features.new_zeros(())
    for derivative in (_domain_gradient, _domain_hessian):
        tensors = torch.stack([derivative(X[rows], P[rows], R[rows]) for rows in _rows(domains)])
        total = total + _spread(tensors)
    return total


def per_sample_hessian(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
    """The published "speed" version: a C x C x d x d block for every sample, then the domains' means."""
    X, P, R = _pieces(features, weight, bias, targets)
    A = torch.diag_embed(P) - P[:, :, None] * P[:, None, :]
    blocks = A[:, :, None, :, None] * X[:, None, :, None, None] * X[:, None, None, None, :]
    hessians = torch.stack([blocks[rows].mean(0) for rows in _rows(domains)])
    gradients = torch.stack([_domain_gradient(X[rows], P[rows], R[rows]) for rows in _rows(domains)])
    return _spread(gradients) + _spread(hessians)


def backpropagated_hgp(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
    """Hessian-gradient products by back-propagation through the gradient, spread over domains, plus the gradients'."""
    gradients, products = [], []
    for gradient in _domain_gradients(features, weight, bias, targets, domains):
        gradients.append(gradient)
        products.append(_flat_gradient(gradient @ gradient.detach(), weight, bias))
    return _spread(torch.stack(gradients)) + _spread(torch.stack(products))


def backpropagated_hutchinson(draws: int) -> HeadPenalty:
    """Diagonals of the domains' Hessians from random signs, one back-propagation a draw, plus the gradients."""

    def penalty(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
        gradients, diagonals = [], []
        for gradient in _domain_gradients(features, weight, bias, targets, domains):
            diagonal = torch.zeros_like(gradient)
            for _ in range(draws):
                z = torch.randint_like(gradient, 2) * 2 - 1
                diagonal = diagonal + z * _flat_gradient(gradient @ z, weight, bias)
            gradients.append(gradient)
            diagonals.append(diagonal / draws)
        return _spread(torch.stack(gradients)) + _spread(torch.stack(diagonals))

    return penalty


def _pieces(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """X with the bias's constant, P, and P − Y."""
    P = linear(features, weight, bias).softmax(1)
    X = torch.cat([features, features.new_ones(len(features), 1)], 1)
    return X, P, P - torch.nn.functional.one_hot(targets, P.shape[1])


def _domain_gradient(X: Tensor, P: Tensor, R: Tensor) -> Tensor:
    return R.T @ X / len(X)


def _domain_hessian(X: Tensor, P: Tensor, R: Tensor) -> Tensor:
    A = torch.diag_embed(P) - P[:, :, None] * P[:, None, :]
    return torch.einsum("nab,ni,nj->aibj", A, X, X) / len(X)


def _domain_gradients(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, domains: Tensor) -> list[Tensor]:
    """Each domain's gradient with respect to the head, flat and with its graph."""
    losses = [cross_entropy(linear(features[rows], weight, bias), targets[rows]) for rows in _rows(domains)]
    return [_flat_gradient(loss, weight, bias) for loss in losses]


def _flat_gradient(value: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    gradient = torch.autograd.grad(value, (weight, bias), create_graph=True)
    return torch.cat([part.flatten() for part in gradient])


def _rows(domains: Tensor) -> list[Tensor]:
    return [(domains == label).nonzero()[:, 0] for label in domains.unique()]


def _spread(tensors: Tensor) -> Tensor:
    return (tensors - tensors.mean(0)).square().sum() / len(tensors)
