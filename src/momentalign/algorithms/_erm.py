"""Empirical risk minimisation, plain or with a penalty."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.nn.functional import cross_entropy

from momentalign.algorithms._base import Algorithm, Backward, Batch, Network, Optimizers
from momentalign.penalties import DomainPenalty


class ERM(Algorithm):
    """Minimises the mean cross-entropy of a balanced batch, which is the mean of the domains' losses, and a penalty.

    One forward pass serves both. The penalty counts the steps of its annealing itself.

    Args:
        network: The network to train.
        num_domains: Number of training domains.
        hparams: The shared hyper-parameters; the penalty has its own already.
        penalty: Added to the loss, or None. Give it `num_domains`, so that nothing has to be read back.
    """

    distributed = True

    def __init__(
        self, network: Network, num_domains: int, hparams: Mapping[str, Any], penalty: DomainPenalty | None = None
    ) -> None:
        super().__init__(network, num_domains, hparams)
        self.penalty = penalty
        self.capturable = penalty is None or (
            penalty.capturable and declares(type(penalty), "capturable", since="compute_terms")
        )

    @property
    def reset_step(self) -> int | None:
        """End of the penalty's annealing."""
        return None if self.penalty is None else self.penalty.anneal_steps or None

    def update(self, batch: Batch, optimizers: Optimizers, backward: Backward) -> dict[str, Tensor]:
        """Do one step; with a penalty logs `"cross_entropy"` and the penalty's terms."""
        features, logits = self.network(batch.inputs)
        loss = cross_entropy(logits, batch.targets)
        if self.penalty is None:
            return self.descend(loss, optimizers["network"], backward)
        penalty, terms = self.penalty.with_terms(features, logits, batch.targets, batch.domains)
        return self.descend(loss + penalty, optimizers["network"], backward, cross_entropy=loss, **terms)


def declares(cls: type, attribute: str, *, since: str) -> bool:
    """Whether `attribute` is declared no further up the bases than `since`, which it describes."""
    return next(attribute in vars(base) for base in cls.__mro__ if attribute in vars(base) or since in vars(base))
