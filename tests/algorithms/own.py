"""What a user might write: a penalty, one with a search space, an algorithm, and things that are neither."""

from collections.abc import Mapping

from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from momentalign.algorithms import Algorithm, Backward, Batch, Hyperparameter, SearchSpace, one_of
from momentalign.penalties import DomainPenalty


class LogitSize(DomainPenalty):
    """Mean square of the logits, from two numbers and things that are no hyper-parameters."""

    def __init__(
        self, weight: float = 0.5, power: int = 2, *, bias: bool = True, num_domains: int | None = None
    ) -> None:
        super().__init__({"size": weight}, bias=bias, num_domains=num_domains)
        self.power = power

    def compute_terms(self, batch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        return {"size": batch.logits.abs().pow(self.power).mean()}


class Searched(LogitSize):
    """The same, with a search space, a label and a title for its term."""

    label = "Logit size"
    term_labels = {"size": "mean size of the logits"}  # noqa: RUF012
    capturable = True

    @classmethod
    def search_space(cls, recipe: str, steps: int) -> SearchSpace:
        return {"weight": Hyperparameter(2.0 if recipe == "image" else 1.0, one_of(3.0, 4.0))}


class Overridden(Searched):
    """Other terms, which may read something back."""

    def compute_terms(self, batch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        return {"size": batch.logits.square().mean()}


class Doubled(Algorithm):
    """Descends on twice the loss; `factor` is a keyword argument."""

    def __init__(self, network, num_domains: int, hparams, *, factor: float = 2.0) -> None:
        super().__init__(network, num_domains, hparams)
        self.factor = factor

    def update(self, batch: Batch, optimizers: Mapping[str, Optimizer], backward: Backward) -> dict[str, Tensor]:
        loss = self.factor * cross_entropy(self.network(batch.inputs)[1], batch.targets)
        self.descend(loss, optimizers["network"], backward)
        return {"loss": loss.detach()}


class Unfinished(Algorithm):
    """Has no update."""


NUMBER = 3
