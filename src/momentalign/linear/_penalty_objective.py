"""Any penalty with a vector per domain as an objective of full-batch fits, through torch in float64."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from momentalign._types import Array
from momentalign.closed_form import HeadRows, SoftmaxResiduals
from momentalign.linear._losses import LossState
from momentalign.linear._objective import Objective
from momentalign.linear._rows import SortedRows
from momentalign.linear._solver import Preconditioner
from momentalign.penalties import DomainPenalty, VectorPenalty

_FEW = 8192
"""Rows for the curvature of the penalties."""

_Rows = tuple[Tensor, Tensor, Tensor]
"""X, weights E (n, K) that average the domains, targets."""


class PenaltyObjective(Objective):
    """A penalty by its :meth:`~momentalign.penalties.VectorPenalty.vectors`, with gradients by autograd.

    Two classes have one row of the head, the difference of theirs, as for :class:`AlignmentObjective`; the penalty is
    evaluated with two logits.

    Args:
        rows: Features, class indices 0 … C − 1, shares.
        classes: Number of classes.
        penalty: Its class defines the terms; its own weights and annealing are not used.
        l2: Weight of half the squared norm of the coefficients.
    """

    def __init__(self, rows: SortedRows, classes: int, penalty: DomainPenalty, *, l2: float) -> None:
        if not isinstance(penalty, VectorPenalty):
            raise NotImplementedError(f"{penalty} has no form that is linear in the number of rows.")
        if penalty.loss != "cross_entropy":
            raise ValueError(f"Full-batch fits take penalties of loss 'cross_entropy', but got {penalty.loss!r}.")
        super().__init__(rows, classes, l2=l2)
        self.penalty = penalty
        self._all = _tensors(rows)
        self._few = _tensors(rows.thinned(max(1, len(rows.X) // _FEW)))

    def terms(self, head: Array) -> dict[str, float]:
        with torch.no_grad(), one_torch_thread():
            rows = _head_rows(self._all, torch.from_numpy(self._state(head).logits))
            return {name: rows.mean_square(values).item() for name, values in self.penalty.vectors(rows).items()}

    def _penalise(self, state: LossState) -> tuple[float, Array]:
        Z = torch.from_numpy(state.logits).requires_grad_()
        with one_torch_thread():
            rows = _head_rows(self._all, Z)
            vectors = self.penalty.vectors(rows)
            terms = [weight * rows.mean_square(vectors[name]) for name, weight in self.weights.items()]
            value = torch.stack(terms).sum()
            (by_logits,) = torch.autograd.grad(value, Z)
        return value.item(), by_logits.numpy()

    def coordinates(self, head: Array) -> Preconditioner:
        """Gauss-Newton coordinates; large heads, and heads without weights, take the loss's curvature alone."""
        H = self.curvature(head)
        dense = H.shape == (head.size, head.size)
        return self._precondition(H, self.penalty_curvature(head) if dense and self.weights else 0.0)

    def penalty_curvature(self, head: Array) -> Array:
        """Gauss-Newton curvature J'J of the weighted terms, (od, od), from some of the rows."""

        def stacked(W: Tensor) -> Tensor:
            vectors = self.penalty.vectors(_head_rows(self._few, self._few[0] @ W.reshape(self.shape).T))
            scales = {name: (2.0 * weight / len(vectors[name])) ** 0.5 for name, weight in self.weights.items()}
            return torch.cat([scale * vectors[name].flatten() for name, scale in scales.items()])

        with one_torch_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # from torch's imports for forward derivatives
            # Some directions at a time: each of them needs a few numbers per row.
            point = torch.from_numpy(head.copy())
            along = torch.func.vmap(lambda v: torch.func.jvp(stacked, (point,), (v,))[1], chunk_size=50)
            J = along(torch.eye(len(head), dtype=point.dtype))
            curvature: Array = (J @ J.T).numpy()
        return curvature


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Keep torch to one thread: products of a few columns gain nothing from two, and wait for each other when busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _tensors(rows: SortedRows) -> _Rows:
    """The rows as tensors; X without a copy."""
    domains = np.repeat(np.arange(rows.number), rows.sizes)
    E = np.where(domains[:, None] == np.arange(rows.number), rows.shares[:, None], 0.0)
    return torch.from_numpy(rows.X), torch.from_numpy(E), torch.from_numpy(np.asarray(rows.targets, dtype=np.int64))


def _head_rows(rows: _Rows, Z: Tensor) -> HeadRows:
    """Rows with their logits: two also for a head of one row."""
    X, E, targets = rows
    logits = torch.cat([-0.5 * Z, 0.5 * Z], 1) if Z.shape[1] == 1 else Z
    return HeadRows.of(X, E, SoftmaxResiduals(logits, targets))
