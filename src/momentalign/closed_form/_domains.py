"""Sums over domains that need no list of them: any integer labels, any imbalance, nothing read back to the host.

Legend: same_ij = [e_i = e_j], u_i = 1/n_e for a sample of domain e, K = Σ_i u_i the number of domains.
"""

import torch
from torch import Tensor

_ENTRIES = 2**22


def same(domains: Tensor, others: Tensor, dtype: torch.dtype) -> Tensor:
    """1 where two samples are of one domain, 0 elsewhere; shape (n, m)."""
    return (domains[:, None] == others).to(dtype)


def counts(domains: Tensor) -> Tensor:
    """Number of samples of each sample's domain, shape (n,), integer."""
    if len(domains) ** 2 <= _ENTRIES:
        return (domains[:, None] == domains).sum(1)
    rows = max(1, _ENTRIES // len(domains))
    return torch.cat([(block[:, None] == domains).sum(1) for block in domains.split(rows)])


def shares(domains: Tensor, dtype: torch.dtype) -> Tensor:
    """U of the legend, shape (n,)."""
    return counts(domains).to(dtype).reciprocal()


def number_of_domains(u: Tensor) -> Tensor:
    """K of the legend, from the shares; rounded, so that one domain is exactly one."""
    return u.sum().round()


def pair_weights(statistic: str, domains: Tensor, u: Tensor, others: Tensor, other_u: Tensor, number: Tensor) -> Tensor:
    r"""Weights under which the sample Gram sums to a statistic of the domain Gram.

    Args:
        statistic: `"norms"`: :math:`u_i u_j\,\mathrm{same}_{ij}/K`; `"spread"`:
            :math:`u_i u_j (K\,\mathrm{same}_{ij} - 1)/K^2`.
        domains: Of the rows, shape (n,).
        u: Their shares, shape (n,).
        others: Domains of the columns, shape (m,).
        other_u: Their shares, shape (m,).
        number: K.

    Returns:
        Shape (n, m).
    """
    together = domains[:, None] == others
    shifted = torch.add(together, number.reciprocal(), alpha=-1) if statistic == "spread" else together
    return shifted * torch.outer(u / number, other_u)


def gram_spread(gram: Tensor, domains: Tensor, weights: Tensor | None = None) -> Tensor:
    """Spread over domains of vectors known by their inner products.

    Args:
        gram: Inner products of the samples' vectors, shape (n, n).
        domains: Any integers, shape (n,).
        weights: What a sample weighs in its domain's vector, shape (n,); its share of the mean by default.

    Returns:
        Scalar.
    """
    u = shares(domains, gram.dtype)
    v = u if weights is None else weights
    return (gram * pair_weights("spread", domains, v, domains, v, number_of_domains(u))).sum()


def averages(domains: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""What averages over domains, all from one comparison of the labels.

    Args:
        domains: Any integers, shape (n,).
        dtype: Of the numbers.

    Returns:
        Own (n, n), symmetric, which takes values to the mean of each sample's domain:
        :math:`u_j\,\mathrm{same}_{ij}`; its diagonal u; the number of domains K; and u/K, which takes values to the
        mean of the domains' means.
    """
    together = domains[:, None] == domains
    own = together / together.sum(1, keepdim=True, dtype=dtype)
    u = own.diagonal()
    number = number_of_domains(u)
    return own, u, number, u / number


def domain_means(values: Tensor, domains: Tensor) -> Tensor:
    """Mean of `values` (n, m) over each sample's domain, laid out by sample; shape (n, m)."""
    together = same(domains, domains, values.dtype)
    return together @ values / together.sum(1, keepdim=True)


def mean_over_domains(values: Tensor, domains: Tensor) -> Tensor:
    """Mean over domains of the domains' means of `values` (n,): every domain counts the same."""
    u = shares(domains, values.dtype)
    return (u * values).sum() / u.sum()


def index_domains(domains: Tensor, num_domains: int | None, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Labels and a weight matrix that averages over each domain.

    Args:
        domains: Integer labels, shape (n,).
        num_domains: The labels are 0 … num_domains − 1 and nothing synchronises; None looks at them, which does.
        dtype: Of the weights.

    Returns:
        The labels of the K domains in ascending order, and weights (n, K): 1/n_e where the sample is of domain
        e. A domain without samples has a column of zeros.
    """
    labels = domains.unique() if num_domains is None else torch.arange(num_domains, device=domains.device)
    member = same(domains, labels, dtype)
    return labels, member / member.sum(0).clamp(min=1)
