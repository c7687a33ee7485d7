r"""Distances between the domains' means and covariances of the features, over pairs of domains, as CORAL needs them.

Legend (see `averages` in `_domains.py`): X (n, d) features less the mean of the domains' means, so that rounding is
that of differences; own (n, n) maps values to the means of their domains, u (n,) is its diagonal 1/n_e, K the number
of domains, share (n,) = u/K; M = own X the domains' means, C = X − M; Q = C Cᵀ, whose squares are the inner products of
the samples' C_i C_iᵀ.

The mean over pairs is 2K/(K − 1) times the spread, so with t = 2/(K − 1), 0 for one domain,

.. math:: \mathrm{mean} = \frac td \sum_i u_i \|M_i\|^2, \qquad
          \mathrm{covariance} = \frac t{d^2} \sum_{ij} w_i w_j (\mathrm{same}_{ij} - 1/K)\,Q_{ij}^2,
          \qquad w = \frac1{n_e - 1}

and the weights of the second are :math:`u_i \omega_i \omega_j (\mathrm{own}_{ij} - \mathrm{share}_j)` with
:math:`\omega = 1/(1-u)`. A domain of one row has C = 0 there, whatever its ω. For a mini-batch on a CUDA device four
Triton kernels compute them with their gradient (`_coral_kernels.py`): the means need no derivative of their own,
because deviations from a mean sum to zero.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from momentalign import _triton
from momentalign.closed_form import _coral_kernels as kernels
from momentalign.closed_form._domains import averages, number_of_domains

if _triton.AVAILABLE:
    import triton

_ROWS = 512
"""Largest batch for the kernels: products of large matrices are better left to a library."""

_BLOCK = 16
"""Rows of a program's tile, and columns of a tile of pairs."""

_COLUMNS, _SPAN, _DEPTH = 128, 32, 64
"""Columns of X that a tile of pairs reads at a time; columns of other programs, and rows that they read at a time."""


def coral_distances(features: Tensor, domains: Tensor) -> tuple[Tensor, Tensor]:
    """Mean squared distance of the domains' means and of their covariances, over pairs and coordinates.

    Both are 0 for one domain, and a domain of one row has covariance zero. No d x d matrix is formed.
    """
    if _can_fuse(features):
        mean, covariance, *_ = _FusedCoralDistances.apply(features, domains)  # type: ignore[no-untyped-call]
        return mean, covariance
    return _plain_distances(features, domains)


def _can_fuse(features: Tensor) -> bool:
    """Whether the kernels can be used: a mini-batch in float32 on CUDA."""
    return _triton.can_use_float32(features) and len(features) <= _ROWS


def pairs_per_spread(u: Tensor) -> Tensor:
    """Mean squared distance over pairs of K domains, in units of their spread: 2K/(K − 1), and 0 for one domain."""
    number = number_of_domains(u)
    return torch.where(number > 1, 2 * number / (number - 1).clamp(min=1), 0.0)


def _plain_distances(features: Tensor, domains: Tensor) -> tuple[Tensor, Tensor]:
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
    return (scaled[:, None] * means * means).sum(), (weights * gram * gram).sum().relu()


class _Intermediates(NamedTuple):
    """What the backward pass reads: C, the weights of Q² times Q, and u t/d times M."""

    centred: Tensor
    weighted_gram: Tensor
    weighted_means: Tensor


class _FusedCoralDistances(torch.autograd.Function):
    @staticmethod
    def forward(features: Tensor, domains: Tensor) -> tuple[Tensor, ...]:
        (n, d), X, labels = features.shape, features.contiguous(), domains.contiguous()
        tiles, spans = triton.cdiv(n, _BLOCK), triton.cdiv(d, _SPAN)
        share, weighted_gram = X.new_empty(n), X.new_empty(n, n)
        centred, weighted_means = torch.empty_like(X), torch.empty_like(X)
        of_means, of_covariances = X.new_empty(tiles * spans), X.new_empty(tiles * tiles)
        kernels.shares[(tiles,)](labels, share, n, BLOCK_I=_BLOCK, BLOCK_J=_DEPTH)
        kernels.centre[tiles, spans](
            X, labels, share, centred, weighted_means, of_means, n, d, BLOCK_I=_BLOCK, BLOCK_J=_DEPTH, BLOCK_D=_SPAN
        )
        columns = min(_COLUMNS, max(16, triton.next_power_of_2(d)))
        kernels.pairs[tiles, tiles](
            centred, labels, share, weighted_gram, of_covariances, n, d, BLOCK_I=_BLOCK, BLOCK_J=_BLOCK, BLOCK_D=columns
        )
        return of_means.sum(), of_covariances.sum().relu_(), *_Intermediates(centred, weighted_gram, weighted_means)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, ...]) -> None:
        _triton.save_outputs(ctx, inputs, output, 2)

    @staticmethod
    def backward(ctx: Any, mean: Tensor | None, covariance: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
        features, domains, *rest = ctx.saved_tensors
        grads = _triton.zero_where_missing(features, mean, covariance)
        if torch.is_grad_enabled():
            return *_triton.differentiable_gradients(_plain_distances(features, domains), (features,), grads), None
        saved = _Intermediates(*rest)
        (n, d), dfeatures = features.shape, torch.empty_like(saved.centred)
        kernels.slopes[triton.cdiv(n, _BLOCK), triton.cdiv(d, _SPAN)](
            saved.centred, saved.weighted_means, saved.weighted_gram, *grads, dfeatures, n, d,
            BLOCK_I=_BLOCK, BLOCK_J=_DEPTH, BLOCK_D=_SPAN,
        )  # fmt: skip
        return dfeatures, None
