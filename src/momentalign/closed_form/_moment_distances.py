r"""Distances between the domains' means and covariances of the features, over pairs of domains.

Legend (see `averages` in `_domains.py`): X (n, d) features less the mean of the domains' means, so that rounding is
that of differences; own (n, n) takes values to the means of their domains, u (n,) is its diagonal 1/n_e, K the number
of domains, share (n,) = u/K; M = own X the domains' means, C = X − M; Q = C Cᵀ, whose squares are the inner products of
the samples' C_i C_iᵀ.

The mean over pairs is 2K/(K − 1) times the spread, so with t = 2/(K − 1), 0 for one domain,

.. math:: \mathrm{mean} = \frac td \sum_i u_i \|M_i\|^2, \qquad
          \mathrm{covariance} = \frac t{d^2} \sum_{ij} w_i w_j (\mathrm{same}_{ij} - 1/K)\,Q_{ij}^2,
          \qquad w = \frac1{n_e - 1}

and the weights of the second are :math:`u_i \omega_i \omega_j (\mathrm{own}_{ij} - \mathrm{share}_j)` with
:math:`\omega = 1/(1-u)`. A domain of one row has C = 0 there, whatever its ω. Neither the means nor what X is less
need a derivative of their own: deviations from a mean sum to zero. On a CUDA device with Triton that is six operations
for a mini-batch (`_moment_kernels.py`).
"""

from typing import Any

import torch
from torch import Tensor

from momentalign._triton import are_single, blocks, can_use, power
from momentalign.closed_form import _moment_kernels as kernels
from momentalign.closed_form._domains import averages, domain_means, gram_spread, number_of_domains, shares

_ROWS = 512
"""Rows up to which the kernels are used: a product of large matrices is better left to a library."""

_BLOCK = 16
"""Rows of a program's tile, and columns of one of pairs."""

_COLUMNS, _SPAN, _DEPTH = 128, 32, 64
"""Columns of X that a tile of pairs meets at a time; those of other programs, and rows that they meet at a time."""


def moment_distances(features: Tensor, domains: Tensor) -> tuple[Tensor, Tensor]:
    """Mean squared distance of the domains' means and of their covariances, over pairs and coordinates.

    No d x d matrix is formed. Forward and backward are written out by hand: at the size of a mini-batch the number of
    operations is the cost.

    Args:
        features: Shape (n, d).
        domains: Any integers, shape (n,).

    Returns:
        Two scalars, 0 for one domain. A domain of one row counts with covariance zero.
    """
    mean, covariance, *_ = _MomentDistances.apply(features, domains)  # type: ignore[no-untyped-call]
    return mean, covariance


def _can_fuse(features: Tensor) -> bool:
    """Whether the kernels take it: float32 on CUDA, with Triton, a mini-batch, and not where a compiler does it."""
    return can_use(features) and are_single(features) and len(features) <= _ROWS


def pairs_per_spread(u: Tensor) -> Tensor:
    """Mean squared distance over pairs of K domains, in units of their spread: 2K/(K − 1), and 0 for one domain."""
    number = number_of_domains(u)
    return torch.where(number > 1, 2 * number / (number - 1).clamp(min=1), 0.0)


def _by_definition(features: Tensor, domains: Tensor) -> tuple[Tensor, Tensor]:
    """The same through the spreads of Gram matrices, for autograd."""
    X, d = features - features.mean(0).detach(), features.shape[1]
    means = domain_means(X, domains)
    centred = X - means
    u = shares(domains, X.dtype)
    pairs = pairs_per_spread(u)
    covariance_weights = torch.where(u < 1, u / (1 - u), 0.0)  # 1/(n_e − 1)
    squares = (centred @ centred.T).square()
    mean = pairs * gram_spread(means @ means.T, domains) / d
    return mean, pairs * gram_spread(squares, domains, covariance_weights) / d**2


class _MomentDistances(torch.autograd.Function):
    """Behind the two distances come the deviations C, the weights of Q² times Q, and u t/d times M for backward."""

    @staticmethod
    def forward(features: Tensor, domains: Tensor) -> tuple[Tensor, ...]:
        return _fused_distances(features, domains) if _can_fuse(features) else _distances(features, domains)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *output[2:])

    @staticmethod
    def backward(
        ctx: Any, dmean: Tensor | None, dcovariance: Tensor | None, *_: Tensor | None
    ) -> tuple[Tensor | None, None]:
        if dmean is None and dcovariance is None:
            return None, None
        features, domains, centred, weighted_gram, weighted_means = ctx.saved_tensors
        dmean = torch.zeros_like(dcovariance) if dmean is None else dmean  # type: ignore[arg-type]
        dcovariance = torch.zeros_like(dmean) if dcovariance is None else dcovariance
        if torch.is_grad_enabled():
            values = _by_definition(features, domains)
            return torch.autograd.grad(values, features, (dmean, dcovariance), create_graph=True)[0], None
        slopes = _fused_slopes if _can_fuse(features) else _slopes
        return slopes(centred, weighted_gram, weighted_means, dmean, dcovariance), None


def _distances(features: Tensor, domains: Tensor) -> tuple[Tensor, ...]:
    d = features.shape[1]
    own, u, number, share = averages(domains, features.dtype)
    X = features - share @ features
    means = own @ X
    centred = X - means
    scaled = u * ((number - 1).reciprocal().nan_to_num(posinf=0.0) * (2 / d))
    # ω/√d, twice in the weights; 1 − u is at least a half but for single rows.
    omega = torch.rsub(u, d**0.5, alpha=d**0.5).clamp(min=d**0.5 / 2).reciprocal()
    weights = torch.outer(scaled * omega, omega) * (own - share)
    gram = centred @ centred.T
    weighted_gram, weighted_means = weights * gram, scaled[:, None] * means
    mean = torch.dot(weighted_means.flatten(), means.flatten())
    covariance = torch.dot(weighted_gram.flatten(), gram.flatten())
    return mean, covariance, centred, weighted_gram, weighted_means


def _slopes(
    centred: Tensor, weighted_gram: Tensor, weighted_means: Tensor, dmean: Tensor, dcovariance: Tensor
) -> Tensor:
    return torch.addmm(weighted_means * dmean, weighted_gram * dcovariance, centred, beta=2, alpha=4)


def _fused_distances(features: Tensor, domains: Tensor) -> tuple[Tensor, ...]:
    (n, d), X, labels = features.shape, features.contiguous(), domains.contiguous()
    tiles, spans = blocks(n, _BLOCK), blocks(d, _SPAN)
    share, weighted_gram = X.new_empty(n), X.new_empty(n, n)
    centred, weighted_means = torch.empty_like(X), torch.empty_like(X)
    of_means, of_covariances = X.new_empty(tiles * spans), X.new_empty(tiles * tiles)
    kernels.shares[(tiles,)](labels, share, n, BLOCK_I=_BLOCK, BLOCK_J=_DEPTH)
    kernels.centre[tiles, spans](
        X, labels, share, centred, weighted_means, of_means, n, d, BLOCK_I=_BLOCK, BLOCK_J=_DEPTH, BLOCK_D=_SPAN
    )
    columns = min(_COLUMNS, power(d, 16))
    kernels.pairs[tiles, tiles](
        centred, labels, share, weighted_gram, of_covariances, n, d, BLOCK_I=_BLOCK, BLOCK_J=_BLOCK, BLOCK_D=columns
    )
    return of_means.sum(), of_covariances.sum(), centred, weighted_gram, weighted_means


def _fused_slopes(
    centred: Tensor, weighted_gram: Tensor, weighted_means: Tensor, dmean: Tensor, dcovariance: Tensor
) -> Tensor:
    (n, d), found = centred.shape, torch.empty_like(centred)
    inputs = centred, weighted_means, weighted_gram, dmean, dcovariance
    kernels.slopes[blocks(n, _BLOCK), blocks(d, _SPAN)](
        *inputs, found, n, d, BLOCK_I=_BLOCK, BLOCK_J=_DEPTH, BLOCK_D=_SPAN
    )
    return found
