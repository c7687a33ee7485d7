"""Brute force in float64: domain losses through an explicit head, differentiated by torch.func.

Nothing here knows a closed form. Everything is differentiable in the features and in the head.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.func import jacrev

LABELS = (3, -7, 2**40)
"""Domain labels: out of order, negative, huge."""

SIZES: dict[str, Callable[[int], int]] = {
    "balanced": lambda k: 1,
    "unbalanced": lambda k: 2**k,
    "single": lambda k: 1 if k == 0 else 10,
}
"""How many samples the k-th label gets, relative to the others; of 21 samples, `single` gives the first just one."""


@dataclass(frozen=True)
class Case:
    """A loss, whether the head has a bias, and the balance of the domains."""

    loss: str
    bias: bool
    balance: str

    def __str__(self) -> str:
        return f"{self.loss}-{'bias' if self.bias else 'plain'}-{self.balance}"


LOSSES = ("cross_entropy", "logistic", "squared_error")
CASES = [Case(loss, bias, balance) for loss in LOSSES for bias in (True, False) for balance in SIZES]
ORDERS = {"cross_entropy": (1, 2, 3), "logistic": (1, 2, 3, 4), "squared_error": (1, 2, 3)}
CASES_AND_ORDERS = [(case, order) for case in CASES for order in ORDERS[case.loss]]
LOSSES_AND_ORDERS = [(loss, order) for loss in LOSSES for order in ORDERS[loss]]


def routes(loss: str, order: int) -> list[str]:
    """Routes that serve an order."""
    served = ["gram", "auto"]
    if loss != "cross_entropy" or order < 3:
        served.append("direct")
    if order < 3:
        served.append("pairwise")
    return served


@dataclass(frozen=True)
class ReferenceBatch:
    """A batch and the head behind its logits: W (C, d), its last column the bias where there is one."""

    loss: str
    bias: bool
    features: Tensor
    head: Tensor
    logits: Tensor
    targets: Tensor
    domains: Tensor

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The four arguments of every function of the package."""
        return self.features, self.logits, self.targets, self.domains

    @property
    def keywords(self) -> dict[str, str | bool]:
        """What the functions of :mod:`momentalign.functional` have to know besides."""
        return {"loss": self.loss, "bias": self.bias}


def make_batch(
    loss: str,
    n: int = 21,
    d: int = 2,
    C: int = 3,
    *,
    domains: tuple[int, ...] = LABELS,
    balance: str = "unbalanced",
    bias: bool = True,
    seed: int = 0,
) -> ReferenceBatch:
    """Random batch in float64, in shuffled order; rounding goes to the last domain.

    The logistic loss has one logit, whatever C.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    C = 1 if loss == "logistic" else C
    relative = [SIZES[balance](k) for k in range(len(domains))]
    sizes = [n * size // sum(relative) for size in relative]
    sizes[-1] += n - sum(sizes)
    labels = torch.repeat_interleave(torch.tensor(domains), torch.tensor(sizes))
    labels = labels[torch.randperm(n, generator=generator)]
    features, head = normal(n, d), normal(C, d + bias)
    targets = normal(n, C) if loss == "squared_error" else torch.randint(max(C, 2), (n,), generator=generator)
    return ReferenceBatch(loss, bias, features, head, linear(features, head), targets, labels)


def linear(features: Tensor, head: Tensor) -> Tensor:
    """Logits of a head whose last column is a bias where it is one wider than the features."""
    if head.shape[1] > features.shape[1]:
        features = torch.cat([features, features.new_ones(len(features), 1)], 1)
    return features @ head.T


def sample_losses(loss: str, logits: Tensor, targets: Tensor) -> Tensor:
    """Losses in elementary operations, which torch differentiates to any order; shape (n,)."""
    if loss == "cross_entropy":
        return logits.logsumexp(1) - logits.gather(1, targets[:, None])[:, 0]
    if loss == "logistic":
        return (1 + logits[:, 0].exp()).log() - targets * logits[:, 0]
    return (logits - targets).square().sum(1) / 2


def residual_tensors(order: int, loss: str, logits: Tensor, targets: Tensor) -> Tensor:
    """Derivatives of each sample's loss with respect to its own logits, flattened: shape (n, C^order)."""
    return torch.stack(
        [
            differentiated(order, lambda z, y=y: sample_losses(loss, z[None], y[None])[0])(z).flatten()
            for z, y in zip(logits, targets, strict=True)
        ]
    )


def domain_losses(loss: str, features: Tensor, head: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
    """Mean loss of each domain, in ascending order of the labels; shape (K,)."""
    losses = sample_losses(loss, linear(features, head), targets)
    return torch.stack([losses[domains == label].mean() for label in domains.unique()])


def dense_derivatives(
    order: int, loss: str, features: Tensor, head: Tensor, targets: Tensor, domains: Tensor
) -> Tensor:
    """Derivatives of the domains' losses over the flattened head, flattened: shape (K, (Cd)^order)."""
    derivative = differentiated(order, lambda w: domain_losses(loss, features, w.reshape(head.shape), targets, domains))
    return derivative(head.flatten()).flatten(1)


def differentiated(order: int, function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Derivative of any order: its axes follow those of the function's value.

    Reverse mode throughout: torch's forward mode warns of its own deprecated parts when it is loaded.
    """
    for _ in range(order):
        function = jacrev(function)
    return function


@cache
def solved(case: Case, order: int) -> tuple[ReferenceBatch, Tensor]:
    """The batch of a case and its domains' dense derivatives, computed once for all tests."""
    batch = make_batch(case.loss, bias=case.bias, balance=case.balance)
    return batch, dense_derivatives(order, case.loss, batch.features, batch.head, batch.targets, batch.domains)


def dense_spread(order: int, loss: str, features: Tensor, head: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
    """Mean squared distance of the domains' dense derivatives from their mean."""
    tensors = dense_derivatives(order, loss, features, head, targets, domains)
    return (tensors - tensors.mean(0)).square().sum(1).mean()


def assert_equal(found: Tensor, expected: Tensor, tolerance: float = 1e-10) -> None:
    """Same shape, and equal to a tolerance relative to the largest entry expected."""
    assert found.shape == expected.shape
    scale = expected.detach().abs().max().item()
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance * scale)
