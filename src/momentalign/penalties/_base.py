"""The base class of penalties: the call, annealing, terms, gather, and what a sweep or report reads from the class."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypedDict

import torch
from torch import Tensor, nn

from momentalign._batch import LOSSES, HeadBatch, check_batch, check_finite, checks_values
from momentalign._validation import check_choice, check_count, check_weight
from momentalign.penalties._domain_vectors import DomainRows, DomainVectors
from momentalign.penalties._gather import gather_batch, is_distributed


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
        self._warned = False

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
        return self._weigh(features, logits, targets, domains, callers=5)[0]  # two of them nn.Module's

    def with_terms(
        self, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The penalty as :meth:`forward` returns it, and its unweighted terms, detached, without those of weight 0."""
        total, terms = self._weigh(features, logits, targets, domains, callers=3)
        return total, {name: term.detach() for name, term in terms.items()}

    def terms(self, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor) -> dict[str, Tensor]:
        """The unweighted terms by name, for logging; takes what :meth:`forward` takes and updates no state."""
        batch = self._prepare(features, logits, targets, domains, callers=2)
        with torch.autocast(batch.features.device.type, enabled=False):
            computed = self.compute_terms(batch, list(self.weights), update=False)
            return self._check_terms(computed, list(self.weights), batch)

    @abstractmethod
    def compute_terms(self, batch: HeadBatch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        """Compute the unweighted terms of a batch.

        Args:
            batch: Features, logits, targets and domains: checked, gathered over ranks, in float32 or float64.
            names: Terms that are needed; more may be returned.
            update: Whether to update moving averages.

        Returns:
            A scalar for each name. One that is not a scalar, has no gradient or, where values are checked, is not
            finite is an error that names it.
        """

    def domain_vectors(self, domains: list[DomainRows]) -> dict[str, DomainVectors]:
        """The unweighted terms by one vector per domain, for full-batch fits of a linear head with cross-entropy."""
        raise NotImplementedError(f"{self} has no form that is linear in the number of rows.")

    def _weigh(
        self, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, *, callers: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        batch = self._prepare(features, logits, targets, domains, callers=callers)
        with torch.autocast(batch.features.device.type, enabled=False):
            starts = self.anneal_steps > 0 and self.initial_weight > 0
            needed = [name for name, weight in self.weights.items() if weight or starts]
            computed = self.compute_terms(batch, needed, update=self.training)
            terms = self._check_terms(computed, needed, batch)
            total = self._total(terms, batch.features)
            if checks_values(self.validate, batch.features) and not total.isfinite():
                bad = [name for name, term in terms.items() if not term.isfinite()]
                own = f"Term {bad[0]!r} of {type(self).__name__}" if bad else type(self).__name__
                check_finite(own, terms[bad[0]] if bad else total, batch.features, self.validate)
            return total, terms

    def _check_terms(self, computed: object, names: list[str], batch: HeadBatch) -> dict[str, Tensor]:
        """The terms of these names, which should be scalars with a gradient."""
        if not isinstance(computed, Mapping):
            found = type(computed).__name__
            raise TypeError(f"{type(self).__name__}.compute_terms() should return a dict of scalars, but is a {found}.")
        if missing := [name for name in names if name not in computed]:
            raise ValueError(
                f"{type(self).__name__} should compute the term {missing[0]!r}, which has a weight, but computed "
                f"{', '.join(map(repr, computed)) or 'none'}."
            )
        trained = batch.features.requires_grad and (self.features_only or batch.logits.requires_grad)
        for name in names:
            own, term = f"Term {name!r} of {type(self).__name__}", computed[name]
            if not isinstance(term, Tensor) or term.ndim or not term.is_floating_point():
                what = f"{term.dtype} of shape {tuple(term.shape)}" if isinstance(term, Tensor) else type(term).__name__
                raise TypeError(
                    f"{own} should be a scalar tensor in floating point, but is {what}. Use .sum() or .mean()."
                )
            if trained and torch.is_grad_enabled() and not term.requires_grad:
                raise ValueError(
                    f"{own} should be a function of features or logits, but has no gradient and trains nothing. "
                    "Compute it from the batch with torch, without detach(), item() or numpy()."
                )
        return {name: computed[name] for name in names}

    def _total(self, terms: dict[str, Tensor], features: Tensor) -> Tensor:
        """Sum of the terms with the weights of this step, which is counted; reads nothing back from the device."""
        values = list(terms.values())
        total = _weighted_sum(values, [self.weights[name] for name in terms]) if terms else features.new_zeros(())
        if terms and self.anneal_steps > 0:
            reached = self.step >= self.anneal_steps
            if self.initial_weight:
                total = torch.where(reached, total, _weighted_sum(values, [self.initial_weight] * len(values)))
            else:
                total = total * reached
        if self.training:
            self.step.add_(1)
        return total

    def _prepare(
        self, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, *, callers: int
    ) -> HeadBatch:
        """Check and gather the batch; a warning points `callers` frames up, at the user's line."""
        loss = None if self.features_only else self.loss
        batch = check_batch(
            features, logits, targets, domains, loss=loss, num_domains=self.num_domains, validate=self.validate
        )
        if self.gather and is_distributed():
            batch = gather_batch(batch)
        if len(batch.features) == 0:
            raise ValueError("'features' should have at least one row, but has none.")
        compares = self.compares_domains and not self._warned and checks_values(self.validate, batch.features)
        if compares and bool((batch.domains == batch.domains[0]).all()):
            self._warned = True
            warnings.warn(
                f"All {len(batch.domains)} samples of the batch are of domain {int(batch.domains[0])}: with one "
                f"domain there is nothing to compare, and {type(self).__name__} is 0. Draw batches from several.",
                UserWarning,
                stacklevel=1 + callers,
            )
        return batch

    def extra_repr(self) -> str:
        """Weights and options in `print(penalty)`."""
        weights = {_argument(name): weight for name, weight in self.weights.items()}
        listed = ", ".join(f"{name}={weight:g}" for name, weight in weights.items())
        loss = "" if self.features_only else f", loss={self.loss!r}"
        return f"{listed}, anneal_steps={self.anneal_steps}{loss}"


def _argument(term: str) -> str:
    """Name of the argument that weighs a term."""
    return f"{term}_weight" if term in ("gradient", "hessian") or term.startswith("order_") else "weight"


def _weighted_sum(terms: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    total = terms[0] if weights[0] == 1 else weights[0] * terms[0]
    for weight, term in zip(weights[1:], terms[1:], strict=True):
        total = torch.add(total, term, alpha=weight)
    return total
