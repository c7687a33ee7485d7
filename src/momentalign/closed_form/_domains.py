"""Averages over domains, without a list of the domains, and statistics of a domain Gram.

Labels are any integers, domains may be unbalanced, and nothing is read back to the host.

Legend: same_ij = [e_i = e_j], u_i = 1/n_e for a sample of domain e, K = Σ_i u_i the number of domains.
"""

import torch
from torch import Tensor

_ENTRIES = 2**22


def same(domains: Tensor, others: Tensor, dtype: torch.dtype) -> Tensor:
    """1 where two samples are of one domain, 0 elsewhere; shape (n, m)."""
    return (domains[:, None] == others).to(dtype)


def _counts(domains: Tensor) -> Tensor:
    """Number of samples of each sample's domain, shape (n,), integer."""
    if len(domains) ** 2 <= _ENTRIES:
        return (domains[:, None] == domains).sum(1)
    rows = max(1, _ENTRIES // len(domains))
    return torch.cat([(block[:, None] == domains).sum(1) for block in domains.split(rows)])


def shares(domains: Tensor, dtype: torch.dtype) -> Tensor:
    """Shares u of the legend, shape (n,)."""
    return _counts(domains).to(dtype).reciprocal()


def number_of_domains(u: Tensor) -> Tensor:
    """K of the legend, from the shares; rounded, so that one domain is exactly one."""
    return u.sum().round()


def pair_weights(domains: Tensor, u: Tensor, others: Tensor, other_u: Tensor, number: Tensor) -> Tensor:
    r"""Weights (n, m) by which the sample Gram sums to the spread, :math:`u_i u_j (K\,\mathrm{same}_{ij} - 1)/K^2`."""
    together = (domains[:, None] == others).to(u.dtype)
    return (together - number.reciprocal()) * torch.outer(u / number, other_u)


def gram_spread(gram: Tensor, domains: Tensor) -> Tensor:
    """Spread over domains of the means of vectors given by their inner products (n, n), never below zero."""
    u = shares(domains, gram.dtype)
    return (gram * pair_weights(domains, u, domains, u, number_of_domains(u))).sum().relu()


def averages(domains: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Weights that average over domains, from one comparison of the labels.

    Returns:
        Own (n, n), symmetric, which maps values to the mean of each sample's domain: :math:`u_j\,\mathrm{same}_{ij}`;
        its diagonal u; the number of domains K; and u/K, which maps values to the mean of the domains' means.
    """
    together = domains[:, None] == domains
    own = together / together.sum(1, keepdim=True, dtype=dtype)
    u = own.diagonal()
    number = number_of_domains(u)
    return own, u, number, u / number


def mean_over_domains(values: Tensor, domains: Tensor) -> Tensor:
    """Mean over domains of the domains' means of `values` (n,): every domain counts the same."""
    u = shares(domains, values.dtype)
    return (u * values).sum() / u.sum()


def domain_labels(domains: Tensor, num_domains: int | None = None) -> Tensor:
    """Labels of the K domains, ascending; with `num_domains` 0 … num_domains − 1, without synchronising."""
    return domains.unique() if num_domains is None else torch.arange(num_domains, device=domains.device)


def domain_weights(domains: Tensor, labels: Tensor, dtype: torch.dtype) -> Tensor:
    """Weights (n, K) that average the samples of each of the labels' domains; zeros for one without samples."""
    member = domains[:, None] == labels
    return member / member.sum(0, dtype=dtype).clamp(min=1)


def spread(domain_gram: Tensor) -> Tensor:
    r"""Mean squared distance of the domains' derivatives from their mean.

    Given :math:`M_{ef} = \langle D_e, D_f \rangle` this is
    :math:`\frac1K \sum_e \|D_e - \bar D\|^2 = \operatorname{tr}(M)/K - \mathbf 1^\top M \mathbf 1/K^2`.
    It is never below zero but for rounding.

    Example:
        >>> import torch
        >>> spread(torch.eye(2))
        tensor(0.5000)
    """
    return domain_gram.diagonal().mean() - domain_gram.mean()


def present_spread(domain_gram: Tensor, present: Tensor) -> Tensor:
    """Spread of a domain Gram over the domains that `present` (K,) marks, never below zero."""
    mask = present.to(domain_gram.dtype)
    number = mask.sum()
    value = (domain_gram.diagonal() * mask).sum() / number - mask @ domain_gram @ mask / number.square()
    return value.relu()


def norms(domain_gram: Tensor) -> Tensor:
    r"""Mean squared norm of the domains' derivatives, :math:`\frac1K \sum_e \|D_e\|^2`.

    Example:
        >>> import torch
        >>> norms(torch.tensor([[4.0, 0.0], [0.0, 2.0]]))
        tensor(3.)
    """
    return domain_gram.diagonal().mean()


def distances(domain_gram: Tensor) -> Tensor:
    r"""Distances (K, K) between the domains' derivatives, :math:`\|D_e - D_f\|^2 = M_{ee} + M_{ff} - 2M_{ef}`.

    A square that rounding made negative counts as zero.

    Example:
        >>> import torch
        >>> distances(torch.tensor([[9.0, 0.0], [0.0, 16.0]]))
        tensor([[0., 5.],
                [5., 0.]])
    """
    squares = domain_gram.diagonal()
    return (squares[:, None] + squares - domain_gram - domain_gram.T).clamp(min=0).sqrt()
