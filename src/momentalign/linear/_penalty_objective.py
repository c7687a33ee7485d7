"""Any penalty with a vector per domain as an objective of full-batch fits, through torch in float64."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from momentalign._types import Array
from momentalign.linear._alignment_objective import AlignmentObjective
from momentalign.linear._objective import Objective
from momentalign.linear._rows import SortedRows
from momentalign.linear._solver import Preconditioner
from momentalign.penalties import DomainPenalty, DomainRows

_FEW = 8192
"""Rows for the curvature of the penalties."""


class PenaltyObjective(Objective):
    """A penalty by its :meth:`~momentalign.penalties.DomainPenalty.domain_vectors`, with gradients by autograd.

    Two classes have one row of the head, the difference of theirs, as for :class:`AlignmentObjective`; the penalty is
    evaluated with two logits. Without weights the loss is evaluated in NumPy.

    Args:
        rows: Features, class indices 0 … C − 1, shares.
        classes: Number of classes.
        penalty: Its class defines the terms; its own weights and annealing are not used.
        l2: Weight of half the squared norm of the coefficients.
    """

    def __init__(self, rows: SortedRows, classes: int, penalty: DomainPenalty, *, l2: float) -> None:
        if penalty.loss != "cross_entropy":
            raise ValueError(f"Full-batch fits take penalties of loss 'cross_entropy', but got {penalty.loss!r}.")
        self.plain = AlignmentObjective(rows, classes, l2=l2)
        self.rows, self.shape, self.penalty = rows, self.plain.shape, penalty
        self.weights: dict[str, float] = {}
        self._domains = _tensors(rows)
        self._few = _tensors(rows.thinned(max(1, len(rows.X) // _FEW)))

    @property
    def l2(self) -> float:
        """Weight of half the squared norm of the coefficients."""
        return self.plain.l2

    @l2.setter
    def l2(self, value: float) -> None:
        self.plain.l2 = value

    def set_weights(self, weights: Mapping[str, float]) -> None:
        self.weights = {name: weight for name, weight in weights.items() if weight}

    def __call__(self, head: Array) -> tuple[float, Array]:
        if not self.weights:
            return self.plain(head)
        W = torch.from_numpy(head.reshape(self.shape).copy()).requires_grad_()
        with one_torch_thread():
            domains = _evaluate(self._domains, W)
            penalised = W[:, :-1] if self.rows.bias else W
            value = torch.stack([rows.mean_loss() for rows in domains]).mean()
            value = value + 0.5 * self.l2 * penalised.square().sum()
            vectors = self.penalty.domain_vectors(domains)
            value = value + torch.stack([w * vectors[name].term() for name, w in self.weights.items()]).sum()
            (gradient,) = torch.autograd.grad(value, W)
        return value.item(), gradient.numpy().ravel()

    def terms(self, head: Array) -> dict[str, float]:
        with torch.no_grad(), one_torch_thread():
            domains = _evaluate(self._domains, torch.from_numpy(head.reshape(self.shape)))
            return {name: vectors.term().item() for name, vectors in self.penalty.domain_vectors(domains).items()}

    def subset(self, size: int) -> AlignmentObjective | None:
        return self.plain.subset(size)

    def coordinates(self, head: Array) -> Preconditioner:
        """Gauss-Newton coordinates; large heads, and heads without weights, take the loss's curvature alone."""
        H = self.plain.curvatures(head, pooled=True)[0]
        dense = H.shape == (head.size, head.size)
        return self.plain.precondition(H, self.curvature(head) if dense and self.weights else 0.0)

    def curvature(self, head: Array) -> Array:
        """Gauss-Newton curvature J'J of the weighted terms, (od, od), from some of the rows."""

        def stacked(W: Tensor) -> Tensor:
            vectors = self.penalty.domain_vectors(_evaluate(self._few, W.reshape(self.shape)))
            parts = []
            for name, weight in self.weights.items():
                values, _, divisor = term = vectors[name]
                parts.append((2.0 * weight / (len(values) * divisor)) ** 0.5 * term.deviations().flatten())
            return torch.cat(parts)

        with one_torch_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # from torch's imports for forward derivatives
            # Some directions at a time: each of them needs a few numbers per row.
            point = torch.from_numpy(head.copy())
            along = torch.func.vmap(lambda v: torch.func.jvp(stacked, (point,), (v,))[1], chunk_size=50)
            J = along(torch.eye(len(head), dtype=point.dtype))
            curvature: Array = (J @ J.T).numpy()
        return curvature


class DomainwisePenalty:
    """A penalty on mini-batches by its domain vectors: the value and annealing of its call, linear in the rows.

    At 500 rows of 100 features five times as fast as the call, whose Gram matrices are n × n.

    Args:
        penalty: Without moving averages.
    """

    def __init__(self, penalty: DomainPenalty) -> None:
        self.penalty, self.step = penalty, 0

    def __call__(self, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
        penalty = self.penalty
        early = self.step < penalty.anneal_steps
        self.step += 1
        if early and not penalty.initial_weight:
            return logits.new_zeros(())
        rows = []
        for domain in domains.unique():
            own = (domains == domain).nonzero()[:, 0]
            shares = features.new_full((len(own),), 1.0 / len(own))
            rows.append(DomainRows.of(features[own], shares, targets[own], logits[own]))
        vectors = penalty.domain_vectors(rows)
        weights = dict.fromkeys(penalty.weights, penalty.initial_weight) if early else penalty.weights
        return torch.stack([weight * vectors[name].term() for name, weight in weights.items()]).sum()


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Keep torch to one thread: products of a few columns gain nothing from two, and wait for each other when busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _tensors(rows: SortedRows) -> list[tuple[Tensor, Tensor, Tensor]]:
    """X, shares and targets of each domain; X without a copy."""
    columns = (rows.X, rows.shares, np.asarray(rows.targets, dtype=np.int64))
    sizes = np.diff(rows.starts).tolist()
    return list(zip(*(torch.from_numpy(column).split(sizes) for column in columns), strict=True))


def _evaluate(domains: list[tuple[Tensor, Tensor, Tensor]], W: Tensor) -> list[DomainRows]:
    """Rows of each domain with their logits: two also for a head of one row."""
    rows = []
    for X, shares, targets in domains:
        Z = X @ W.T
        logits = torch.cat([-0.5 * Z, 0.5 * Z], 1) if len(W) == 1 else Z
        rows.append(DomainRows.of(X, shares, targets, logits))
    return rows
