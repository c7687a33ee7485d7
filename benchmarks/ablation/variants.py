"""CMA as training does not offer it."""

from collections.abc import Mapping
from typing import Any

from momentalign.algorithms import ERM, Network, SearchSpace, find_algorithm
from momentalign.penalties import CMA


class CMAWithoutReset(ERM):
    """CMA whose optimizer keeps its averages where annealing ends; its weights are averaged from 2% of the steps on."""

    label = "CMA without reset"

    def __init__(
        self,
        network: Network,
        num_domains: int,
        hparams: Mapping[str, Any],
        gradient_weight: float = 1.0,
        hessian_weight: float = 1.0,
        anneal_steps: int = 0,
        scaling: str = "none",
    ) -> None:
        penalty = CMA(
            gradient_weight, hessian_weight, anneal_steps=anneal_steps, scaling=scaling, num_domains=num_domains
        )
        super().__init__(network, num_domains, hparams, penalty)

    @property
    def reset_step(self) -> int | None:
        """Never."""
        return None

    @classmethod
    def search_space(cls, recipe: str, steps: int) -> SearchSpace:
        """CMA's."""
        return find_algorithm("cma").space(recipe, steps)
