"""The objectives of the converged solver, alike for the path: weights by the names of terms, value, coordinates."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray

from momentalign.linear import PenalisedObjective, Rows
from momentalign.linear._direct import DirectTerm
from momentalign.linear._objective import make_term
from momentalign.linear._precondition import Preconditioner, domain_curvatures, gauss_newton
from momentalign.probing._terms import USES_SQUARES, DomainState, Terms, domain_state

Array = NDArray[np.float64]

SCALING = "parameters"
"""Units of the published weights of moment alignment: each spread divided by (dC)²."""

_ORDERS = {"gradient": 1, "hessian": 2, "order_3": 3}

_FEW = 8192
"""Rows that the curvature of the penalties is taken from."""


class Objective(ABC):
    """Domains' mean loss, L2 and penalties as a function of the flattened head.

    Args:
        rows: Training rows.
        classes: Number of classes.
        l2: Weight of half the squared norm of the head.
        scaling: Units of the weights of moment alignment.
    """

    def __init__(self, rows: Rows, classes: int, *, l2: float, scaling: str = SCALING) -> None:
        self.plain = PenalisedObjective(rows, classes, {}, l2=l2, scaling=scaling)
        self.classes = classes

    @abstractmethod
    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Weigh the terms by their names."""

    @abstractmethod
    def __call__(self, head: Array) -> tuple[float, Array]:
        """Value and gradient."""

    @abstractmethod
    def coordinates(self, head: Array) -> Preconditioner:
        """Coordinates in which the objective is nearly round around a head."""


class AlignmentObjective(Objective):
    """Moment alignment, in closed form."""

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Weigh the orders; see :class:`Objective`."""
        self.plain.set_weights({_ORDERS[name]: weight for name, weight in weights.items()})

    def __call__(self, head: Array) -> tuple[float, Array]:
        return self.plain(head)

    def coordinates(self, head: Array) -> Preconditioner:
        """Gauss–Newton curvature of loss and gradient term."""
        return gauss_newton(self.plain, head)


class TermObjective(Objective):
    """Any of the terms of :mod:`momentalign.probing._terms`, by automatic differentiation in float64.

    Two classes are one row of the head, the difference of theirs, as for :class:`AlignmentObjective`; the terms see
    two logits.

    Args:
        rows: Training rows.
        classes: Number of classes.
        l2: Weight of half the squared norm of the head.
        terms: The penalty.
    """

    def __init__(self, rows: Rows, classes: int, *, l2: float, terms: Terms) -> None:
        super().__init__(rows, classes, l2=l2)
        self.l2, self.vectors, self.weights = l2, terms, dict[str, float]()
        self._domains = _tensors(rows, squares=terms in USES_SQUARES)
        few = rows.thinned(max(1, len(rows.X) // _FEW))
        self._few = _tensors(few, squares=terms in USES_SQUARES)

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Weigh the terms; see :class:`Objective`."""
        self.weights = {name: weight for name, weight in weights.items() if weight}

    def __call__(self, head: Array) -> tuple[float, Array]:
        W = torch.from_numpy(head.reshape(self.plain.shape).copy()).requires_grad_()
        with one_torch_thread():
            states = _states(self._domains, W)
            value = torch.stack([state.u @ state.losses for state in states]).mean() + 0.5 * self.l2 * W.square().sum()
            if self.weights:
                vectors = self.vectors(states)
                value = value + torch.stack([w * vectors[name].term() for name, w in self.weights.items()]).sum()
            (gradient,) = torch.autograd.grad(value, W)
        return value.item(), gradient.numpy().ravel()

    def terms(self, head: Array) -> dict[str, float]:
        """The unweighted terms."""
        with torch.no_grad(), one_torch_thread():
            states = _states(self._domains, torch.from_numpy(head.reshape(self.plain.shape)))
            return {name: vectors.term().item() for name, vectors in self.vectors(states).items()}

    def coordinates(self, head: Array) -> Preconditioner:
        """Gauss–Newton curvature, that of the penalties from some of the rows."""
        outputs, d = self.plain.shape
        H = domain_curvatures(self.plain, head).mean(0)
        if H.shape != (outputs * d, outputs * d):  # a large head: the loss's curvature alone, one matrix for all logits
            return Preconditioner(H + (np.eye(len(H)) if H.ndim == 2 else 1.0) * self.l2)
        P = H + np.eye(len(H)) * self.l2 + self._penalty_curvature(head)
        if outputs > 1:
            # Adding one vector to all logits' heads changes no probability: no curvature, and no step goes there.
            P = P + np.kron(np.full((outputs, outputs), 1 / outputs), np.eye(d) * (np.trace(H) / len(H)))
        return Preconditioner(P)

    def _penalty_curvature(self, head: Array) -> Array:
        """J'J of the weighted vectors' derivatives J', (od, od)."""

        def stacked(W: torch.Tensor) -> torch.Tensor:
            vectors = self.vectors(_states(self._few, W.reshape(self.plain.shape)))
            parts = []
            for name, weight in self.weights.items():
                values, centred, divisor = vectors[name]
                deviations = values - values.mean(0) if centred else values
                parts.append((2.0 * weight / (len(values) * divisor)) ** 0.5 * deviations.flatten())
            return torch.cat(parts)

        if not self.weights:
            return np.zeros((len(head), len(head)))
        with one_torch_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of what torch imports for forward derivatives
            # Some directions at a time: each of them needs a few numbers a row.
            point = torch.from_numpy(head.copy())
            along = torch.func.vmap(lambda v: torch.func.jvp(stacked, (point,), (v,))[1], chunk_size=50)
            J = along(torch.eye(len(head), dtype=point.dtype))
            curvature: Array = (J @ J.T).numpy()
        return curvature


Block = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _tensors(rows: Rows, *, squares: bool) -> list[Block]:
    """X, X² (no columns where it is not asked for), shares and targets of each domain; X without a copy."""
    X, u = torch.from_numpy(rows.X), torch.from_numpy(rows.shares)
    targets = torch.from_numpy(np.asarray(rows.targets, dtype=np.int64))
    sizes = np.diff(rows.starts).tolist()
    columns = (X, X.square() if squares else X[:, :0], u, targets)
    return list(zip(*(column.split(sizes) for column in columns), strict=True))


def _states(domains: list[Block], W: torch.Tensor) -> list[DomainState]:
    return [domain_state(X, squares, u, targets, _logits(X @ W.T)) for X, squares, u, targets in domains]


def _logits(Z: torch.Tensor) -> torch.Tensor:
    return torch.cat([-0.5 * Z, 0.5 * Z], 1) if Z.shape[1] == 1 else Z


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Keep torch to one thread: products of a few columns gain nothing from two, and wait for each other when busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Spreads:
    """Spreads of the domains' derivatives as a function of the flattened head, in the units of :data:`SCALING`.

    Args:
        objective: Holds rows and loss.
        orders: Of the derivatives.
    """

    def __init__(self, objective: PenalisedObjective, orders: Sequence[int] = (1, 2)) -> None:
        self.objective = objective
        self._terms = {order: make_term(order, objective.loss, objective.rows) for order in orders}

    def __call__(self, head: Array) -> dict[str, float]:
        """The spreads by the names of their terms."""
        rows, loss, shape = self.objective.rows, self.objective.loss, self.objective.shape
        kept: dict[int, list[Array]] = {order: [] for order in self._terms}
        for term in self._terms.values():
            if isinstance(term, DirectTerm):
                term.reset()
        for domain, block in rows.blocks():
            X, u = rows.X[block], rows.shares[block]
            state = loss.state(X @ head.reshape(shape).T, rows.targets[block])
            for order, term in self._terms.items():
                S = loss.coordinates(order, state)
                if isinstance(term, DirectTerm):
                    term.add(domain, X, S, u)
                else:
                    kept[order].append(S)
        scale = float((shape[1] * loss.classes) ** 2)
        return {name: self._spread(order, kept) / scale for name, order in _ORDERS.items() if order in self._terms}

    def _spread(self, order: int, kept: dict[int, list[Array]]) -> float:
        term = self._terms[order]
        return term.spread() if isinstance(term, DirectTerm) else term.spread(np.concatenate(kept[order]))[0]
