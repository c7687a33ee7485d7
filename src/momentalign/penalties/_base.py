"""The base class of penalties: the call, annealing, terms, gather, and what a sweep or report reads from the class."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import nullcontext
from typing import ClassVar, TypedDict

import torch
import torch.distributed as dist
from torch import Tensor, nn

from momentalign._batch import (
    LOSSES,
    HeadBatch,
    check_batch,
    check_finite,
    check_inputs,
    check_ranges,
    checks_values,
    warn_of_probabilities,
)
from momentalign._validation import check_choice, check_count, check_weight
from momentalign.penalties._gather import gather_batch


class PenaltyOptions(TypedDict, total=False):
    """Arguments that all penalties take; :class:`DomainPenalty` documents them."""

    anneal_steps: int
    loss: str
    bias: bool
    num_domains: int | None
    gather: bool
    validate: bool | None


class DomainPenalty(nn.Module, ABC):
    """A penalty to add to the training loss: `penalty(features, logits, targets, domains)`.

    For the first `anneal_steps` training calls the weights are 0 (`initial_weight`, where a published method has
    another), then their full value; reset the optimizer's state at that step. The count of calls is a buffer and
    belongs to the checkpoint. A domain that is missing from a batch is left out. With a single domain there is nothing
    to compare: the penalty is 0, and a warning is given once.

    A subclass implements :meth:`compute_terms` and declares, as class attributes, what sweeps and reports need:
    `label`, `term_labels`, `capturable`. Without a class method `search_space(recipe, steps)` its hyper-parameters are
    the constructor's arguments whose default is a number, fixed at it.

    Args:
        weights: Weight of each term, by the term's name.
        anneal_steps: Training calls before the weights take effect.
        loss: `"cross_entropy"`, `"logistic"` or `"squared_error"`: the loss whose derivatives are compared.
        bias: Whether the head has a bias.
        num_domains: Domains are 0 … num_domains − 1; then nothing has to be read back from the device.
        gather: Under `torch.distributed`, gather the batches of all ranks, differentiably.
        validate: Check values (finite, in range), those of the penalty as well. None checks on CPU only; never while
            compiling or capturing.
    """

    label: str = ""
    """Name of a penalty of your own in tables and charts; without it the class's name."""

    term_labels: ClassVar[Mapping[str, str]] = {}
    """Titles of the terms in a report, by the terms' names."""

    initial_weight: float = 0.0
    """Weight of every term while annealing."""

    capturable: bool = False
    """Whether a call with `num_domains` reads nothing back, so that it can be captured in a CUDA graph."""

    compares_domains: bool = True
    """Whether the penalty is a difference between domains, so that it is 0 for one domain."""

    features_only: bool = False
    """Whether logits and targets are not used, so that only their types and rows are checked."""

    checks_first: bool = True
    """Whether values are checked before the penalty: where it is finite for some that are not, or kept."""

    step: Tensor

    def __init__(
        self,
        weights: Mapping[str, float],
        *,
        anneal_steps: int = 0,
        loss: str = "cross_entropy",
        bias: bool = True,
        num_domains: int | None = None,
        gather: bool = True,
        validate: bool | None = None,
    ) -> None:
        super().__init__()
        self.weights = {name: check_weight(_argument(name), weight) for name, weight in weights.items()}
        self.anneal_steps = check_count("anneal_steps", anneal_steps, 0)
        self.loss = check_choice("loss", loss, LOSSES)
        self.bias = bias
        self.num_domains = None if num_domains is None else check_count("num_domains", num_domains, 1)
        self.gather = gather
        self.validate = validate
        self.register_buffer("step", torch.zeros((), dtype=torch.long))
        self._called = self._warned = False

    def forward(self, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
        """Weighted sum of the terms.

        Args:
            features: Input of the linear head, shape (n, d).
            logits: Output of the head, shape (n, C); (n, 1) for the logistic loss.
            targets: Class indices, shape (n,); real numbers, shape (n, C), for squared error.
            domains: Domain of each row: integers, shape (n,).

        Returns:
            Scalar, in float32 or float64.
        """
        return self._call(features, logits, targets, domains)[0]

    def with_terms(
        self, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The penalty as :meth:`forward` returns it, and its unweighted terms, detached, without those of weight 0."""
        total, terms = self._call(features, logits, targets, domains)
        return total, {name: term.detach() for name, term in terms.items()}

    def terms(self, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor) -> dict[str, Tensor]:
        """The unweighted terms by name, for logging; takes what :meth:`forward` takes and updates no state."""
        return self._call(features, logits, targets, domains, alone=True)[1]

    @abstractmethod
    def compute_terms(self, batch: HeadBatch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        """Compute the unweighted terms of a batch.

        Args:
            batch: Features, logits, targets and domains: checked, gathered over ranks, in float32 or float64.
            names: Terms that are needed; more may be returned.
            update: Whether to update moving averages.

        Returns:
            A scalar for each name.
        """

    def weigh(self, batch: HeadBatch, names: list[str], *, update: bool) -> tuple[Tensor, dict[str, Tensor]]:
        """Sum of the terms with their weights, and the terms of these names."""
        computed = self.compute_terms(batch, names, update=update)
        terms = {name: computed[name] for name in names}
        total = batch.features.new_zeros(())
        for name, term in terms.items():
            total = total + self._weighted(name, term)
        return total, terms

    def _weighted(self, name: str, term: Tensor) -> Tensor:
        """A term times its weight in this step, but for annealing from 0."""
        if self.initial_weight and self.anneal_steps:
            early = (self.step < self.anneal_steps).to(term.device)
            return torch.where(early, self.initial_weight * term, self.weights[name] * term)
        return self.weights[name] * term

    def _call(
        self, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, *, alone: bool = False
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The penalty and its terms; `alone`: all terms, and no state is updated."""
        loss = None if self.features_only else self.loss
        batch = check_batch(features, logits, targets, domains, loss=loss)
        if self.gather and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            batch = gather_batch(batch)
        if batch.features.shape[0] == 0:  # a rank may have none
            raise ValueError("'features' should have at least one row, but has none.")
        checked = checks_values(self.validate, batch.features)
        if checked:
            check_ranges(batch, loss, self.num_domains)
            if self.checks_first:
                check_inputs(batch, loss)
            if not self._called:
                self._called = True
                warn_of_probabilities(batch, loss)
        reached = None
        if self.anneal_steps and not (alone or self.initial_weight):
            # Gradients stop here before the boundary, also those that are not finite.
            reached = (self.step >= self.anneal_steps).to(features.device)
            x, z = (torch.where(reached, tensor, tensor.detach()) for tensor in batch[:2])
            batch = HeadBatch(x, z, *batch[2:])
        every = alone or (self.anneal_steps > 0 and self.initial_weight > 0)
        names = [name for name, weight in self.weights.items() if weight or every]
        update, device = self.training and not alone, batch.features.device.type
        in_half = torch.is_autocast_enabled(device)
        with torch.autocast(device, enabled=False) if in_half else nullcontext():
            total, terms = self.weigh(batch, names, update=update)
        if checked:
            self._check_result(total, {} if alone else terms, batch)
        if update:
            self.step.add_(1)
        return total if reached is None else torch.where(reached, total, 0.0), terms

    def _check_result(self, total: Tensor, terms: dict[str, Tensor], batch: HeadBatch) -> None:
        """Name the term that overflows or trains nothing; warn once of a single domain, where the penalty is 0."""
        name, value = type(self).__name__, total.item()
        if not math.isfinite(value):
            check_inputs(batch, None if self.features_only else self.loss)
            bad = [(f"Term {term!r} of {name}", found) for term, found in terms.items() if not found.isfinite()]
            if terms:  # an overflow may be looked at
                check_finite(*(bad[0] if bad else (name, total)), batch.features, self.validate)
        trained = torch.is_grad_enabled() and batch.features.requires_grad and batch.logits.requires_grad
        if trained and terms and not total.requires_grad:
            raise ValueError(
                f"{name} has no gradient and trains nothing. Compute its terms from the batch with torch, without "
                "detach(), item() or numpy()."
            )
        unusual = value == 0 and self.compares_domains and not self._warned
        if unusual and bool((batch.domains == batch.domains[0]).all()):
            self._warned = True
            warnings.warn(
                f"All {len(batch.domains)} samples of the batch are of domain {int(batch.domains[0])}: with one "
                f"domain there is nothing to compare, and {name} is 0. Draw batches from several.",
                UserWarning,
                stacklevel=2,
            )

    def extra_repr(self) -> str:
        """Weights and options in `print(penalty)`."""
        weights = {_argument(name): weight for name, weight in self.weights.items()}
        listed = ", ".join(f"{name}={weight:g}" for name, weight in weights.items())
        loss = "" if self.features_only else f", loss={self.loss!r}"
        return f"{listed}, anneal_steps={self.anneal_steps}{loss}"


def _argument(term: str) -> str:
    """Name of the argument that weighs a term."""
    return f"{term}_weight" if term in ("gradient", "hessian") or term.startswith("order_") else "weight"
