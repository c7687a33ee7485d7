"""Any penalty with a vector per domain as an objective of full-batch fits, through torch in float64."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from momentalign._types import Array
from momentalign.closed_form import HeadRows, SoftmaxResiduals
from momentalign.linear._alignment_objective import AlignmentObjective
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
    evaluated with two logits. Without weights the loss is evaluated in NumPy.

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
        self.plain = AlignmentObjective(rows, classes, l2=l2)
        self.rows, self.shape, self.penalty = rows, self.plain.shape, penalty
        self.weights: dict[str, float] = {}
        self._all = _tensors(rows)
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
            rows = _evaluate(self._all, W)
            penalised = W[:, :-1] if self.rows.bias else W
            value = (rows.residuals.losses @ rows.E).mean() + 0.5 * self.l2 * penalised.square().sum()
            vectors = self.penalty.vectors(rows)
            for name, weight in self.weights.items():
                value = value + weight * rows.mean_square(vectors[name])
            (gradient,) = torch.autograd.grad(value, W)
        return value.item(), gradient.numpy().ravel()

    def terms(self, head: Array) -> dict[str, float]:
        with torch.no_grad(), one_torch_thread():
            rows = _evaluate(self._all, torch.from_numpy(head.reshape(self.shape)))
            return {name: rows.mean_square(values).item() for name, values in self.penalty.vectors(rows).items()}

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
            vectors = self.penalty.vectors(_evaluate(self._few, W.reshape(self.shape)))
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
    sizes = np.diff(rows.starts)
    E = np.zeros((len(rows.X), len(sizes)))
    E[np.arange(len(E)), np.repeat(np.arange(len(sizes)), sizes)] = rows.shares
    return torch.from_numpy(rows.X), torch.from_numpy(E), torch.from_numpy(np.asarray(rows.targets, dtype=np.int64))


def _evaluate(rows: _Rows, W: Tensor) -> HeadRows:
    """Rows with their logits: two also for a head of one row."""
    X, E, targets = rows
    Z = X @ W.T
    logits = torch.cat([-0.5 * Z, 0.5 * Z], 1) if len(W) == 1 else Z
    return HeadRows.of(X, E, SoftmaxResiduals(logits, targets))
