"""Batches that an honest user passes by mistake: what is changed, the error, and the argument that it names."""

from math import inf, nan
from typing import Any

import torch
from torch import Tensor

N = 6
GOOD: dict[str, Any] = {
    "features": torch.ones(N, 2),
    "logits": torch.zeros(N, 3),
    "targets": torch.tensor([0, 1, 2, 0, 1, 2]),
    "domains": torch.tensor([0, 0, 0, 1, 1, 1]),
}


def changed(**changes: Any) -> tuple[Any, ...]:
    """A good batch of six samples, new each time, with something changed."""
    return tuple((dict(zip(GOOD, (tensor.clone() for tensor in GOOD.values()), strict=True)) | changes).values())


def spoiled(name: str, value: float) -> Tensor:
    tensor = GOOD[name].clone()
    tensor[3:5] = value
    return tensor


BAD_TYPES: list[tuple[str, Any]] = [
    ("features", [[1.0]] * N),
    ("features", torch.ones(N, 2).long()),
    ("features", torch.ones(N, 2).cfloat()),
    ("targets", torch.zeros(N)),
    ("domains", None),
    ("domains", ["a"] * N),
    ("domains", torch.zeros(N)),
    ("domains", torch.zeros(N).bool()),
]
BAD_VALUES: list[tuple[str, Any]] = [
    ("features", torch.ones(N)),
    ("features", torch.tensor(1.0)),
    ("features", torch.ones(N, 0)),
    ("features", spoiled("features", nan)),
    ("features", spoiled("features", inf)),
    ("logits", torch.zeros(N)),
    ("logits", torch.zeros(1, 3)),
    ("logits", torch.zeros(N, 1)),
    ("logits", torch.zeros(N, 3, device="meta")),
    ("logits", spoiled("logits", -inf)),
    ("targets", torch.zeros(N - 1).long()),
    ("targets", torch.zeros(N, 3).long()),
    ("targets", spoiled("targets", 3)),
    ("targets", spoiled("targets", -1)),
    ("domains", torch.zeros(N + 1).long()),
    ("domains", torch.tensor(0)),
    ("domains", torch.zeros(N, 1).long()),
]
BAD = [(TypeError, *bad) for bad in BAD_TYPES] + [(ValueError, *bad) for bad in BAD_VALUES]
BAD_TARGETS = [
    ("logistic", 2, torch.zeros(N), "logits"),
    ("logistic", 1, torch.zeros(N, 1), "targets"),
    ("logistic", 1, torch.tensor([0, 1, 2, 0, 1, 1]), "targets"),
    ("logistic", 1, torch.tensor([0, 1, nan, 0, 1, 1]), "targets"),
    ("squared_error", 2, torch.zeros(N), "targets"),
    ("squared_error", 1, torch.tensor([0, inf, 0, 0, 0, 0]), "targets"),
]
"""Targets that do not fit a loss, by the number of outputs."""
