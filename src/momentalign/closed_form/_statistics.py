"""Statistics of a domain Gram: the K x K inner products of the domains' derivatives."""

from torch import Tensor


def spread(domain_gram: Tensor) -> Tensor:
    r"""Mean squared distance of the domains' derivatives from their mean.

    Given :math:`M_{ef} = \langle D_e, D_f \rangle` this is
    :math:`\frac1K \sum_e \|D_e - \bar D\|^2 = \operatorname{tr}(M)/K - \mathbf 1^\top M \mathbf 1/K^2`.

    Args:
        domain_gram: Inner products of the domains' derivatives, shape (K, K).

    Returns:
        Scalar, never below zero but for rounding.

    Example:
        >>> import torch
        >>> spread(torch.eye(2))
        tensor(0.5000)
    """
    return domain_gram.diagonal().mean() - domain_gram.mean()


def norms(domain_gram: Tensor) -> Tensor:
    r"""Mean squared norm of the domains' derivatives, :math:`\frac1K \sum_e \|D_e\|^2`.

    Args:
        domain_gram: Inner products of the domains' derivatives, shape (K, K).

    Returns:
        Scalar.

    Example:
        >>> import torch
        >>> norms(torch.tensor([[4.0, 0.0], [0.0, 2.0]]))
        tensor(3.)
    """
    return domain_gram.diagonal().mean()


def distances(domain_gram: Tensor) -> Tensor:
    r"""Distances :math:`\|D_e - D_f\|` between the domains' derivatives, from :math:`M_{ee} + M_{ff} - 2M_{ef}`.

    Args:
        domain_gram: Inner products of the domains' derivatives, shape (K, K).

    Returns:
        Distances, shape (K, K), zero on the diagonal; a square that rounding made negative counts as zero.

    Example:
        >>> import torch
        >>> distances(torch.tensor([[9.0, 0.0], [0.0, 16.0]]))
        tensor([[0., 5.],
                [5., 0.]])
    """
    squares = domain_gram.diagonal()
    return (squares[:, None] + squares - domain_gram - domain_gram.T).clamp(min=0).sqrt()
