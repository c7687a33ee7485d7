"""Closed-form moment alignment of gradients and Hessians, and of either alone."""

from typing import Unpack

from momentalign.penalties._moment_alignment import (
    AlignmentOptions,
    AlignmentPenalty,
)


class CMA(AlignmentPenalty):
    r"""Closed-form moment alignment: matches gradients and Hessians of a linear head across domains.

    :math:`\frac1K \sum_e \big(\alpha\,\|\nabla L_e - \overline{\nabla L}\|^2 + \beta\,\|H_e - \overline{H}\|_F^2\big)`
    with the derivatives of the domains' mean losses, exact, for the cost of one Gram matrix per batch. Add it to the
    mean of the domains' losses, which is the pooled loss when the batch is balanced. Terms: `gradient`, `hessian`.
    The other arguments are those of :class:`MomentAlignment`.

    Args:
        gradient_weight: Weight of the gradients' spread, the published α.
        hessian_weight: Weight of the Hessians' spread, the published β.

    Example:
        >>> import torch
        >>> features = torch.tensor([[1.0], [2.0]])
        >>> logits, targets, domains = torch.zeros(2, 2), torch.tensor([0, 0]), torch.tensor([0, 1])
        >>> CMA(gradient_weight=1.0, hessian_weight=2.0, bias=False)(features, logits, targets, domains)
        tensor(1.2500)
    """

    def __init__(
        self,
        gradient_weight: float = 1.0,
        hessian_weight: float = 1.0,
        *,
        anneal_steps: int = 0,
        momentum: float = 0.0,
        bias: bool = True,
        loss: str = "cross_entropy",
        route: str = "auto",
        scaling: str = "none",
        num_domains: int | None = None,
        gather: bool = True,
        validate: bool | None = None,
    ) -> None:
        super().__init__(
            {1: gradient_weight, 2: hessian_weight},
            anneal_steps=anneal_steps,
            momentum=momentum,
            bias=bias,
            loss=loss,
            route=route,
            scaling=scaling,
            num_domains=num_domains,
            gather=gather,
            validate=validate,
        )


class GradientMatching(AlignmentPenalty):
    r"""Matches the gradients of a linear head across domains: :class:`CMA` without its Hessians.

    :math:`\frac1K \sum_e \|\nabla L_e - \overline{\nabla L}\|^2`. Term: `gradient`.

    Args:
        gradient_weight: Weight of the spread.
        **options: Other arguments of :class:`MomentAlignment`.
    """

    def __init__(self, gradient_weight: float = 1.0, **options: Unpack[AlignmentOptions]) -> None:
        super().__init__({1: gradient_weight}, **options)


class HessianMatching(AlignmentPenalty):
    r"""Matches the Hessians of a linear head across domains: :class:`CMA` without its gradients.

    :math:`\frac1K \sum_e \|H_e - \overline{H}\|_F^2`. For squared error the Hessian does not depend on the head: on
    frozen features the term is constant there. Term: `hessian`.

    Args:
        hessian_weight: Weight of the spread.
        **options: Other arguments of :class:`MomentAlignment`.
    """

    def __init__(self, hessian_weight: float = 1.0, **options: Unpack[AlignmentOptions]) -> None:
        super().__init__({2: hessian_weight}, **options)
