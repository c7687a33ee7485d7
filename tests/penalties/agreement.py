"""Compares a penalty, its value and its gradients, with a plain re-derivation."""

from collections.abc import Callable

import torch
from torch import Tensor

from tests.references import ReferenceBatch, assert_equal, linear

Reference = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Takes features, head, targets and domains to a number."""


def assert_agrees(penalty: Callable[..., Tensor], reference: Reference, batch: ReferenceBatch) -> Tensor:
    """Same value, same gradients of features and head, to 1e-10 in float64; returns the value."""
    found = differentiated(lambda x, W, y, e: penalty(x, linear(x, W), y, e), batch)
    expected = differentiated(reference, batch)
    assert expected[0].item() != 0
    for mine, its in zip(found, expected, strict=True):
        assert_equal(mine, its)
    return found[0]


def differentiated(function: Reference, batch: ReferenceBatch) -> list[Tensor]:
    """Value and gradients of features and head."""
    features, head = batch.features.clone().requires_grad_(), batch.head.clone().requires_grad_()
    value = function(features, head, batch.targets, batch.domains)
    gradients = torch.autograd.grad(value, [features, head], allow_unused=True, materialize_grads=True)
    return [value.detach(), *gradients]
