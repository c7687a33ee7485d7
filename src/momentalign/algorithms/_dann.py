"""Domain-adversarial training: features that do not reveal the domain."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from momentalign.algorithms._base import Algorithm, Backward, Batch, Network, Optimizers


class DANN(Algorithm):
    """Domain-adversarial network: a network and a discriminator of its features' domains take turns.

    The discriminator lowers its cross-entropy over domains, plus a penalty on the gradient of the rows' losses in
    its input, for `discriminator_steps` steps; then the network takes one, on its own cross-entropy minus
    `discriminator_weight` times what the discriminator minimises. Each of these is one :meth:`update` on a batch of
    its own, as in DomainBed: with one discriminator step, half of the updates train the network.
    """

    conditional = False
    """Whether the discriminator is given the class and every class of a batch counts the same."""

    step: Tensor

    def __init__(self, network: Network, num_domains: int, hparams: Mapping[str, Any]) -> None:
        super().__init__(network, num_domains, hparams)
        features, hidden = network.head.in_features, hparams["discriminator_width"]
        layers: list[nn.Module] = []
        for k in range(hparams["discriminator_depth"] - 1):
            layers += [nn.Linear(hidden if k else features, hidden)]
            layers += [nn.Dropout(hparams["discriminator_dropout"]), nn.ReLU()]
        self.discriminator = nn.Sequential(*layers, nn.Linear(hidden, num_domains))
        self.embeddings = nn.Embedding(network.head.out_features, features) if self.conditional else None
        self.register_buffer("step", torch.zeros((), dtype=torch.long))
        self._count: int | None = None

    def optimizers(self) -> dict[str, Optimizer]:
        """Make `"network"` and `"discriminator"`, both with betas (beta1, 0.9)."""
        betas = (self.hparams["beta1"], 0.9)
        rivals = [*self.discriminator.parameters(), *(self.embeddings.parameters() if self.embeddings else ())]
        decay = self.hparams["discriminator_weight_decay"]
        return {
            "network": self._make_optimizer(self.network.parameters(), betas=betas),
            "discriminator": self._make_optimizer(rivals, betas=betas, weight_decay=decay),
        }

    def update(self, batch: Batch, optimizers: Optimizers, backward: Backward) -> dict[str, Tensor]:
        """Do one step, the discriminator's or the network's, whose turn is the last.

        Logs the network's `"loss"`, `"cross_entropy"` of the classes, `"discriminator_loss"` of the domains, and
        `"gradient_penalty"` if it has a weight.
        """
        if self._count is None:  # counted here, because reading the buffer would synchronise
            self._count = int(self.step)
        turns = self.hparams["discriminator_steps"] + 1
        trains_network = self._count % turns == turns - 1
        self._count += 1
        self.step.add_(1)
        with torch.set_grad_enabled(trains_network):
            features, logits = self.network(batch.inputs)
            classes = cross_entropy(logits, batch.targets)
        parts, weight = self._discriminate(features, batch), self.hparams["gradient_penalty_weight"]
        adversary = parts["discriminator_loss"] + weight * parts.get("gradient_penalty", 0.0)
        loss = classes - self.hparams["discriminator_weight"] * adversary
        goal, player = (loss, "network") if trains_network else (adversary, "discriminator")
        logged = self.descend(goal, optimizers[player], backward, cross_entropy=classes, **parts)
        return logged | {"loss": loss.detach()}

    def _discriminate(self, features: Tensor, batch: Batch) -> dict[str, Tensor]:
        inputs = features if self.embeddings is None else features + self.embeddings(batch.targets)
        penalised = self.hparams["gradient_penalty_weight"] > 0
        if penalised and not inputs.requires_grad:
            inputs.requires_grad_()
        losses = cross_entropy(self.discriminator(inputs), batch.domains, reduction="none")
        parts = {"discriminator_loss": losses.mean()}
        if self.conditional:
            shares = 1 / (batch.targets[:, None] == batch.targets).to(losses.dtype).sum(1)
            parts["discriminator_loss"] = (losses * shares).sum() / shares.sum()
        if penalised:
            (slopes,) = torch.autograd.grad(losses.sum(), inputs, create_graph=True)
            parts["gradient_penalty"] = slopes.square().sum(1).mean()
        return parts

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._count = None
        super()._load_from_state_dict(*args, **kwargs)


class CDANN(DANN):
    """Conditional domain-adversarial network: the input of the discriminator is the features and the class.

    A learned vector of the row's class is added to the discriminator's features, and rows are weighted so that every
    class of the batch counts the same.
    """

    conditional = True
