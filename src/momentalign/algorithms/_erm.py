"""Empirical risk minimisation, plain or with a penalty."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from momentalign.algorithms._base import Algorithm, Backward
from momentalign.algorithms._batch import Batch
from momentalign.algorithms._network import Network
from momentalign.penalties import DomainPenalty


class ERM(Algorithm):
    """Minimises the mean cross-entropy of a balanced batch, which is the mean of the domains' losses, and a penalty.

    One forward pass serves both. The penalty counts the steps of its annealing itself; `reset_step` says where.

    Args:
        network: What is trained.
        num_domains: Number of training domains.
        hparams: The shared hyper-parameters; the penalty has its own already.
        penalty: Added to the loss, or None. Give it `num_domains`, so that nothing has to be read back.
        capturable: Whether the penalty may be captured in a CUDA graph; those of this package may.
    """

    capturable = True
    distributed = True

    def __init__(
        self,
        network: Network,
        num_domains: int,
        hparams: Mapping[str, Any],
        penalty: DomainPenalty | None = None,
        *,
        capturable: bool = True,
    ) -> None:
        super().__init__(network, num_domains, hparams)
        self.penalty = penalty
        self.capturable = capturable

    @property
    def reset_step(self) -> int | None:
        """Step at which the penalty sets in, where it waits."""
        return None if self.penalty is None else self.penalty.anneal_steps or None

    def update(self, batch: Batch, optimizers: Mapping[str, Optimizer], backward: Backward) -> dict[str, Tensor]:
        """Do one training step.

        Args:
            batch: A mini-batch of each training domain.
            optimizers: As :meth:`optimizers` made them.
            backward: Back-propagates from a scalar.

        Returns:
            `"loss"`; with a penalty also `"cross_entropy"` and the penalty's terms, unweighted.
        """
        features, logits = self.network(batch.inputs)
        loss = cross_entropy(logits, batch.targets)
        parts = {}
        if self.penalty is not None:
            parts = {"cross_entropy": loss.detach()}
            penalty, terms = self.penalty.with_terms(features, logits, batch.targets, batch.domains)
            loss = loss + penalty
            parts |= terms
        self._descend(loss, optimizers["network"], backward)
        return {"loss": loss.detach(), **parts}
