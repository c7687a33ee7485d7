r"""Penalties over all training rows at once, from each domain's own sums: n·C·d numbers, no matrix of rows by rows.

The same numbers as the classes of :mod:`momentalign.penalties` give on the whole training set, whose Gram matrices
would be n × n. Rows have weights, so that a bootstrapped training set is its distinct rows.

Legend: X (n, d) a domain's rows, u (n,) their shares of its mean, P (n, C) probabilities, R (n, C) residuals.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class DomainState(NamedTuple):
    """One domain's rows and what a head says of them; `squares` is X², elementwise, where a penalty asks for it."""

    X: Tensor
    squares: Tensor
    u: Tensor
    P: Tensor
    R: Tensor
    losses: Tensor


class Vectors(NamedTuple):
    """A vector for each domain, (K, …), whose mean squared length, or distance from the mean, is a penalty."""

    values: Tensor
    centred: bool = True
    divisor: float = 1.0

    def term(self) -> Tensor:
        """The penalty."""
        deviations = self.values - self.values.mean(0) if self.centred else self.values
        return deviations.square().sum() / (len(deviations) * self.divisor)


Terms = Callable[[list[DomainState]], dict[str, Vectors]]


def irm(domains: list[DomainState]) -> dict[str, Vectors]:
    """The domains' gradients by the head, which should vanish."""
    return {"gradient_norm": Vectors(_stack(domains, _gradient), centred=False)}


def vrex(domains: list[DomainState]) -> dict[str, Vectors]:
    """The domains' losses."""
    return {"loss_variance": Vectors(_stack(domains, lambda state: state.u @ state.losses))}


def fishr(domains: list[DomainState]) -> dict[str, Vectors]:
    """Variances of the samples' gradients; the penalty is a mean over coordinates."""
    second = _stack(domains, lambda state: _moment(state.u, state.R.square(), state.squares))
    variances = second - _stack(domains, _gradient).square()
    return {"gradient_variance": Vectors(variances, divisor=float(variances[0].numel()))}


def hgp(domains: list[DomainState]) -> dict[str, Vectors]:
    """Gradients, and products of Hessian and gradient."""
    gradients = _stack(domains, _gradient)
    products = torch.stack([_hessian_times(state, G) for state, G in zip(domains, gradients, strict=True)])
    return {"gradient": Vectors(gradients), "hessian": Vectors(products)}


def hutchinson(domains: list[DomainState]) -> dict[str, Vectors]:
    """Gradients, and diagonals of the Hessians."""
    diagonals = _stack(domains, lambda state: _moment(state.u, state.P * (1 - state.P), state.squares))
    return {"gradient": Vectors(_stack(domains, _gradient)), "hessian": Vectors(diagonals)}


USES_SQUARES: tuple[Terms, ...] = (fishr, hutchinson)


def domain_state(X: Tensor, squares: Tensor, u: Tensor, targets: Tensor, logits: Tensor) -> DomainState:
    """What a head that gives `logits` (n, C) says of a domain's rows."""
    logs = logits.log_softmax(1)
    P = logs.exp()
    hot = torch.nn.functional.one_hot(targets, logits.shape[1]).to(P.dtype)
    return DomainState(X, squares, u, P, P - hot, -(logs * hot).sum(1))


def _stack(domains: list[DomainState], function: Callable[[DomainState], Tensor]) -> Tensor:
    return torch.stack([function(state) for state in domains])


def _moment(u: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Mean of the outer products of two vectors, (C, d)."""
    return (left * u[:, None]).T @ right


def _gradient(state: DomainState) -> Tensor:
    return _moment(state.u, state.R, state.X)


def _hessian_times(state: DomainState, G: Tensor) -> Tensor:
    """Hessian of the domain's loss times G (C, d)."""
    along = state.X @ G.T
    return _moment(state.u, state.P * (along - (state.P * along).sum(1, keepdim=True)), state.X)
