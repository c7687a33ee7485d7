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
:math:`\omega = 1/(1-u)`. A domain of one row has C = 0 there, whatever its ω.
"""

import torch
from torch import Tensor

from momentalign.closed_form._domains import averages, number_of_domains


def coral_distances(features: Tensor, domains: Tensor) -> tuple[Tensor, Tensor]:
    """Mean squared distance of the domains' means and of their covariances, over pairs and coordinates.

    Both are 0 for one domain, and a domain of one row has covariance zero. No d x d matrix is formed.
    """
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


def pairs_per_spread(u: Tensor) -> Tensor:
    """Mean squared distance over pairs of K domains, in units of their spread: 2K/(K − 1), and 0 for one domain."""
    number = number_of_domains(u)
    return torch.where(number > 1, 2 * number / (number - 1).clamp(min=1), 0.0)
