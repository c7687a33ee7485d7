"""Domain-adversarial training: features that do not reveal the domain."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from momentalign.algorithms._base import Algorithm, Backward, Batch, Network


class AdversarialAlgorithm(Algorithm):
    """A network and a discriminator that take turns: what DANN and CDANN share.

    The discriminator lowers its cross-entropy over domains, plus a penalty on the gradient of the rows' losses in
    its input, for `discriminator_steps` steps; then the network takes one, on its own cross-entropy minus
    `discriminator_weight` times what the discriminator minimises. Each of these is one :meth:`update` on a batch of
    its own, as in DomainBed: with one discriminator step, half of the updates train the network.
    """

    conditional: bool
    """Whether the discriminator is given the class and every class of a batch counts the same."""

    step: Tensor

    def __init__(self, network: Network, num_domains: int, hparams: Mapping[str, Any]) -> None:
        super().__init__(network, num_domains, hparams)
        width, classes = network.head.in_features, network.head.out_features
        self.discriminator = _mlp(
            width,
            num_domains,
            hidden=hparams["discriminator_width"],
            depth=hparams["discriminator_depth"],
            dropout=hparams["discriminator_dropout"],
        )
        self.embeddings = nn.Embedding(classes, width) if self.conditional else None
        self.turns: int = hparams["discriminator_steps"] + 1
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

    def update(self, batch: Batch, optimizers: Mapping[str, Optimizer], backward: Backward) -> dict[str, Tensor]:
        """Do one step, the discriminator's or the network's.

        Logs the network's `"loss"`, `"cross_entropy"` of the classes, `"discriminator_loss"` of the domains, and
        `"gradient_penalty"` if it has a weight.
        """
        trains_network = self._turn() == self.turns - 1
        with torch.set_grad_enabled(trains_network):
            features, logits = self.network(batch.inputs)
            classes = cross_entropy(logits, batch.targets)
        parts = self._discriminate(features, batch)
        adversary = parts["discriminator_loss"]
        if "gradient_penalty" in parts:
            adversary = adversary + self.hparams["gradient_penalty_weight"] * parts["gradient_penalty"]
        loss = classes - self.hparams["discriminator_weight"] * adversary
        if trains_network:
            self.descend(loss, optimizers["network"], backward)
        else:
            self.descend(adversary, optimizers["discriminator"], backward)
        logged = {"loss": loss, "cross_entropy": classes, **parts}
        return {name: value.detach() for name, value in logged.items()}

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

    def _turn(self) -> int:
        """Whose turn it is, the network's last; counted here, because reading the buffer would synchronise."""
        if self._count is None:
            self._count = int(self.step)
        turn = self._count % self.turns
        self._count += 1
        self.step.add_(1)
        return turn

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._count = None
        super()._load_from_state_dict(*args, **kwargs)


class DANN(AdversarialAlgorithm):
    """Domain-adversarial network: the input of the discriminator is the features."""

    conditional = False


class CDANN(AdversarialAlgorithm):
    """Conditional domain-adversarial network: the input of the discriminator is the features and the class.

    A learned vector of the row's class is added to the discriminator's features, and rows are weighted so that every
    class of the batch counts the same.
    """

    conditional = True


def _mlp(inputs: int, outputs: int, *, hidden: int, depth: int, dropout: float) -> nn.Sequential:
    """A perceptron of `depth` linear layers, at least two, with dropout and ReLU between them."""
    layers: list[nn.Module] = []
    for _ in range(depth - 1):
        layers += [nn.Linear(inputs, hidden), nn.Dropout(dropout), nn.ReLU()]
        inputs = hidden
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))
