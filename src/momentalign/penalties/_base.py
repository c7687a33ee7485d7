"""What all penalties share: the call, annealing, terms for logging, arithmetic in float32, the gather."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from momentalign._batch import LOSSES, HeadBatch, check_batch, checks_values
from momentalign._validation import check_choice, check_count, check_weight
from momentalign.penalties._domain_vectors import DomainRows, DomainVectors
from momentalign.penalties._gather import gather_batch, is_distributed
from momentalign.penalties._weighing import weigh


class DomainPenalty(nn.Module, ABC):
    """A number to add to the training loss: `penalty(features, logits, targets, domains)`.

    Before `anneal_steps` training calls the weights are 0 (or what a published method prescribes), from then on
    their full value; make the optimizer's state new at that step. The count of calls is a buffer and survives a
    checkpoint. A domain that is missing from a batch is left out; with a single domain there is nothing to
    compare, the penalty is 0, and a warning says so once.

    Args:
        weights: Weight of each term, by the term's name.
        anneal_steps: Training calls before the weights take effect.
        initial_weight: Weight of every term until then.
        loss: `"cross_entropy"`, `"logistic"` or `"squared_error"`: the loss whose derivatives are meant.
        bias: Whether the head has a bias.
        num_domains: Domains are 0 … num_domains − 1; then nothing has to be read back from the device.
        gather: Under `torch.distributed`, gather the batches of all ranks, differentiably.
        validate: Check values (finite, in range). None checks on CPU only; never while compiling or capturing.
    """

    compares_domains = True
    """Whether the penalty is a difference between domains, so that one domain alone makes it 0."""

    features_only = False
    """Whether logits and targets are not used, and may be anything with a row a sample."""

    step: Tensor

    def __init__(
        self,
        weights: Mapping[str, float],
        *,
        anneal_steps: int,
        initial_weight: float = 0.0,
        loss: str,
        bias: bool,
        num_domains: int | None,
        gather: bool,
        validate: bool | None,
    ) -> None:
        super().__init__()
        self.weights = {name: check_weight(_argument(name), weight) for name, weight in weights.items()}
        self.anneal_steps = check_count("anneal_steps", anneal_steps, 0)
        self.initial_weight = initial_weight
        self.loss = check_choice("loss", loss, LOSSES)
        self.bias = bias
        self.num_domains = None if num_domains is None else check_count("num_domains", num_domains, 1)
        self.gather = gather
        self.validate = validate
        self.register_buffer("step", torch.zeros((), dtype=torch.long))
        self._warned = False

    def forward(self, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
        """Weighted sum of the terms.

        Args:
            features: What the head sees, shape (n, d).
            logits: What the head says, shape (n, C); (n, 1) for the logistic loss.
            targets: Class indices, shape (n,); real numbers, shape (n, C), for squared error.
            domains: Where each sample came from: integers, shape (n,).

        Returns:
            Scalar, in float32 at least.
        """
        return self._weigh(features, logits, targets, domains, callers=5)[0]  # two of them nn.Module's

    def with_terms(
        self, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The penalty, as calling it gives it, with the unweighted terms it was made of: one computation for both.

        Args:
            features: What the head sees, shape (n, d).
            logits: What the head says, shape (n, C); (n, 1) for the logistic loss.
            targets: Class indices, shape (n,); real numbers, shape (n, C), for squared error.
            domains: Where each sample came from: integers, shape (n,).

        Returns:
            The weighted sum, and by name the terms, detached. A term of weight 0 is left out.
        """
        total, terms = self._weigh(features, logits, targets, domains, callers=3)
        return total, {name: term.detach() for name, term in terms.items()}

    def _weigh(
        self, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, *, callers: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        batch = self._prepare(features, logits, targets, domains, callers=callers)
        with torch.autocast(batch.features.device.type, enabled=False):
            starts = self.anneal_steps > 0 and self.initial_weight > 0
            needed = [name for name, weight in self.weights.items() if weight or starts]
            computed = self._terms(batch, needed, update=self.training)
            missing = [name for name in needed if name not in computed]
            if missing:
                raise ValueError(
                    f"{type(self).__name__} should compute the terms {', '.join(map(repr, needed))}, which its weights "
                    f"name, but computed {', '.join(map(repr, computed)) or 'none'}."
                )
            terms = {name: computed[name] for name in needed}
            return self._total(terms, batch.features), terms

    def terms(self, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor) -> dict[str, Tensor]:
        """The unweighted terms by name, for logging; nothing that the penalty keeps moves.

        Args:
            features: What the head sees, shape (n, d).
            logits: What the head says, shape (n, C); (n, 1) for the logistic loss.
            targets: Class indices, shape (n,); real numbers, shape (n, C), for squared error.
            domains: Where each sample came from: integers, shape (n,).

        Returns:
            A scalar for each name.
        """
        batch = self._prepare(features, logits, targets, domains, callers=2)
        with torch.autocast(batch.features.device.type, enabled=False):
            return self._terms(batch, list(self.weights), update=False)

    @abstractmethod
    def _terms(self, batch: HeadBatch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        """Compute the named terms; move moving averages only where `update` says so."""

    def domain_vectors(self, domains: list[DomainRows]) -> dict[str, DomainVectors]:
        """The unweighted terms by one vector per domain, for full-batch fits of a linear head with cross-entropy."""
        raise NotImplementedError(f"{type(self).__name__} has no form that is linear in the number of rows.")

    def _total(self, terms: dict[str, Tensor], features: Tensor) -> Tensor:
        """Sum of the terms at this step's weights, which counts the step."""
        if not terms:
            self.step.add_(int(self.training))
            return features.new_zeros(())
        return weigh(
            list(terms.values()),
            [self.weights[name] for name in terms],
            initial=self.initial_weight,
            start=self.anneal_steps,
            step=self.step,
            counts=self.training,
        )

    def _prepare(
        self, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, *, callers: int
    ) -> HeadBatch:
        """Check and gather the batch; the user's line, where a warning points, is `callers` frames up."""
        values = isinstance(features, Tensor) and checks_values(self.validate, features)
        loss = None if self.features_only else self.loss
        batch = check_batch(features, logits, targets, domains, loss=loss, num_domains=self.num_domains, values=values)
        if self.gather and is_distributed():
            batch = gather_batch(batch)
        if len(batch.features) == 0:
            raise ValueError("'features' should have at least one row, but has none.")
        if values and self.compares_domains and not self._warned and bool((batch.domains == batch.domains[0]).all()):
            self._warned = True
            warnings.warn(
                f"All {len(batch.domains)} samples of the batch are of domain {int(batch.domains[0])}: with one "
                f"domain there is nothing to compare, and {type(self).__name__} is 0. Draw batches from several.",
                UserWarning,
                stacklevel=1 + callers,
            )
        return batch

    def extra_repr(self) -> str:
        """What `print(penalty)` shows."""
        weights = {_argument(name): weight for name, weight in self.weights.items()}
        listed = ", ".join(f"{name}={weight:g}" for name, weight in weights.items())
        loss = "" if self.features_only else f", loss={self.loss!r}"
        return f"{listed}, anneal_steps={self.anneal_steps}{loss}"


def _argument(term: str) -> str:
    """Name of the argument that weighs a term."""
    return f"{term}_weight" if term in ("gradient", "hessian") or term.startswith("order_") else "weight"
