"""A network, batches and steps small enough to derive everything again, in float64."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from momentalign.algorithms import Algorithm, Batch, Network, draw_hyperparameters, find_algorithm, reset_optimizer
from tests.references import assert_equal

K, ROWS, INPUTS, FEATURES, CLASSES = 3, 6, 4, 3, 3

ALONE = {"fish", "iga", "andmask", "dann", "cdann", "selfreg"}
"""Algorithms whose step can be neither captured nor shared by several ranks."""


def network(seed: int = 0, dropout: float = 0.0) -> Network:
    torch.manual_seed(seed)
    return Network(nn.Sequential(nn.Linear(INPUTS, FEATURES), nn.Tanh()), FEATURES, CLASSES, dropout).double()


def batch(seed: int = 0, rows: int = ROWS) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    domains = torch.arange(K).repeat_interleave(rows)
    inputs = torch.randn(K * rows, INPUTS, generator=generator, dtype=torch.float64) + domains[:, None]
    return Batch(inputs, torch.randint(CLASSES, (K * rows,), generator=generator), domains)


def hparams(name: str, steps: int = 4, **overrides: Any) -> dict[str, Any]:
    return draw_hyperparameters(find_algorithm(name).space("mnist", steps), 0, overrides)


def build(name: str, steps: int = 4, seed: int = 0, **overrides: Any) -> Algorithm:
    """An algorithm with its defaults for a run of so many steps."""
    made = network(seed)
    torch.manual_seed(seed + 1)
    return find_algorithm(name).build(made, K, hparams(name, steps, **overrides)).double()


def descents(algorithm: Algorithm, lr: float = 0.1) -> dict[str, Optimizer]:
    """Plain gradient descent in the place of each optimizer: what a step moves is the gradient."""
    return {
        name: SGD([p for group in optimizer.param_groups for p in group["params"]], lr=lr)
        for name, optimizer in algorithm.optimizers().items()
    }


def run(
    algorithm: Algorithm,
    optimizers: Mapping[str, Optimizer],
    steps: range,
    share: Callable[[Batch], Batch] = lambda rows: rows,
) -> list[dict[str, Tensor]]:
    """What a loop does, batch and generator seeded by the step's number; `share` is what a rank has of a batch."""
    logged = []
    for step in steps:
        if step == algorithm.reset_step:
            for optimizer in optimizers.values():
                reset_optimizer(optimizer)
        torch.manual_seed(100 + step)
        logged.append(algorithm.update(share(batch(step)), optimizers, lambda loss: loss.backward()))
    return logged


Loss = Callable[[nn.Module, Batch, int], Tensor]


def assert_descends(algorithm: Algorithm, loss: Loss, steps: int = 4, lr: float = 0.1) -> None:
    """The algorithm's steps are gradient descent on a loss that is derived anew, and that is what it logs."""
    twin = network()
    twin.load_state_dict(algorithm.network.state_dict())
    logged = run(algorithm, descents(algorithm, lr), range(steps))
    for step in range(steps):
        torch.manual_seed(100 + step)
        expected = loss(twin, batch(step), step)
        assert_equal(logged[step]["loss"], expected, 1e-9)
        gradients = torch.autograd.grad(expected, list(twin.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(twin.parameters(), gradients, strict=True):
                parameter -= lr * gradient
    for mine, its in zip(algorithm.network.parameters(), twin.parameters(), strict=True):
        assert_equal(mine, its, 1e-9)


def head_of(twin: nn.Module) -> Tensor:
    """Weight and bias of the head side by side, (C, d + 1), with their graph."""
    assert isinstance(twin, Network)
    return torch.cat([twin.head.weight, twin.head.bias[:, None]], 1)
