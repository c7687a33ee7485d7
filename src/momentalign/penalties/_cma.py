"""Closed-form moment alignment of gradients and Hessians, and of either alone."""

from typing import Any, Unpack

from momentalign._search_space import Hyperparameter, SearchSpace, annealing, power_of_ten, uniform, whole
from momentalign.penalties._moment_alignment import (
    GRADIENT_WEIGHT,
    HESSIAN_WEIGHT,
    MOMENTUM,
    SAFE_WEIGHT,
    SCALING,
    AlignmentOptions,
    AlignmentPenalty,
    alignment_space,
    released_space,
    safe_space,
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

    name = "cma"
    label = "CMA"

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

    @classmethod
    def search_space(cls, recipe: str, steps: int) -> SearchSpace:
        """Both weights, annealing and units of the published fine-tuning."""
        return alignment_space(steps, gradient_weight=GRADIENT_WEIGHT, hessian_weight=HESSIAN_WEIGHT)

    @classmethod
    def safe_search_space(cls, recipe: str, steps: int) -> SearchSpace:
        """Both weights with relative scaling, without annealing."""
        return safe_space(gradient_weight=SAFE_WEIGHT, hessian_weight=SAFE_WEIGHT)

    @classmethod
    def released_search_space(cls, recipe: str, steps: int) -> SearchSpace:
        """The public code's annealing; there it is the Hessians' diagonals that are aligned."""
        return released_space(steps, gradient_weight=GRADIENT_WEIGHT, hessian_weight=HESSIAN_WEIGHT)


class CMAMomentum(CMA):
    """CMA with averaging over steps (`momentum=0.95`), with its own search space."""

    name = "cma-momentum"
    label = "CMA with momentum"

    def __init__(
        self, gradient_weight: float = 1.0, hessian_weight: float = 1.0, *, momentum: float = 0.95, **options: Any
    ) -> None:
        super().__init__(gradient_weight, hessian_weight, momentum=momentum, **options)

    @classmethod
    def search_space(cls, recipe: str, steps: int) -> SearchSpace:
        """Smaller weights than CMA's, because the sums over steps are larger."""
        return {
            "gradient_weight": Hyperparameter(100.0, power_of_ten(0.5, 3)),
            "hessian_weight": Hyperparameter(10.0, power_of_ten(-0.5, 2)),
            "momentum": MOMENTUM,
            "anneal_steps": annealing(1500, whole(uniform(500, 4500)), steps),
            "scaling": SCALING,
        }

    @classmethod
    def safe_search_space(cls, recipe: str, steps: int) -> SearchSpace:
        """As CMA's, with momentum."""
        return {**super().safe_search_space(recipe, steps), "momentum": MOMENTUM}

    @classmethod
    def released_search_space(cls, recipe: str, steps: int) -> SearchSpace:
        """That of :meth:`search_space`: the public code has no momentum."""
        return cls.search_space(recipe, steps)


class GradientMatching(AlignmentPenalty):
    r"""Matches the gradients of a linear head across domains: :class:`CMA` without its Hessians.

    :math:`\frac1K \sum_e \|\nabla L_e - \overline{\nabla L}\|^2`. Term: `gradient`.

    Args:
        gradient_weight: Weight of the spread.
        **options: Other arguments of :class:`MomentAlignment`.
    """

    name = "gradient-matching"
    label = "Gradient matching"

    def __init__(self, gradient_weight: float = 1.0, **options: Unpack[AlignmentOptions]) -> None:
        super().__init__({1: gradient_weight}, **options)

    @classmethod
    def search_space(cls, recipe: str, steps: int) -> SearchSpace:
        """As CMA's, without the Hessian's weight."""
        return alignment_space(steps, gradient_weight=GRADIENT_WEIGHT)

    @classmethod
    def safe_search_space(cls, recipe: str, steps: int) -> SearchSpace:
        """The weight with relative scaling, without annealing."""
        return safe_space(gradient_weight=SAFE_WEIGHT)


class HessianMatching(AlignmentPenalty):
    r"""Matches the Hessians of a linear head across domains: :class:`CMA` without its gradients.

    :math:`\frac1K \sum_e \|H_e - \overline{H}\|_F^2`. For squared error the Hessian does not depend on the head: on
    frozen features the term is constant there. Term: `hessian`.

    Args:
        hessian_weight: Weight of the spread.
        **options: Other arguments of :class:`MomentAlignment`.
    """

    name = "hessian-matching"
    label = "Hessian matching"

    def __init__(self, hessian_weight: float = 1.0, **options: Unpack[AlignmentOptions]) -> None:
        super().__init__({2: hessian_weight}, **options)

    @classmethod
    def search_space(cls, recipe: str, steps: int) -> SearchSpace:
        """As CMA's, without the gradient's weight."""
        return alignment_space(steps, hessian_weight=HESSIAN_WEIGHT)

    @classmethod
    def safe_search_space(cls, recipe: str, steps: int) -> SearchSpace:
        """The weight with relative scaling, without annealing."""
        return safe_space(hessian_weight=SAFE_WEIGHT)
