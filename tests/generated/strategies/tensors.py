"""Batches of tensors: shapes, domains, scales, saturation, ties; and tensors that no penalty should take."""

from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

LOSSES = ("cross_entropy", "logistic", "squared_error")

LABELS = (0, 1, 2, -1, 7, 2**40, -(2**62))
"""Domain labels: ordinary, negative, huge."""

seeds = st.integers(0, 2**32 - 1)


@dataclass(frozen=True)
class GeneratedBatch:
    """A batch in float64, with the type that it is to be computed in."""

    loss: str
    bias: bool
    features: Tensor
    logits: Tensor
    targets: Tensor
    domains: Tensor
    dtype: torch.dtype

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The arguments of a penalty, in the batch's type."""
        return self.features.to(self.dtype), self.logits.to(self.dtype), self.targets, self.domains

    @property
    def rounded(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The same numbers in float64."""
        features, logits, targets, domains = self.inputs
        return features.double(), logits.double(), targets, domains

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the penalty."""
        return {"loss": self.loss, "bias": self.bias}

    def __repr__(self) -> str:
        return (
            f"GeneratedBatch({self.loss!r}, bias={self.bias}, {self.dtype}, features={self.features.tolist()}, "
            f"logits={self.logits.tolist()}, targets={self.targets.tolist()}, domains={self.domains.tolist()})"
        )


def _features(kind: str, n: int, d: int, draw: torch.Generator) -> Tensor:
    normal = torch.randn(n, d, generator=draw, dtype=torch.float64)
    if kind == "integers":
        return normal.mul(2).round()
    if kind == "constant":
        return normal[:1].expand(n, d).clone()
    if kind == "sparse":
        return normal * (normal.abs() > 1)
    if kind == "offset":
        return normal + 100
    return normal


@st.composite
def batches(
    draw: st.DrawFn,
    losses: tuple[str, ...] = LOSSES,
    exponents: tuple[int, int] = (-20, 20),
    dtypes: tuple[torch.dtype, ...] = (torch.float64, torch.float32),
    saturation: tuple[float, ...] = (0.0, 1.0, 1.0, 10.0, 100.0, 1e4),
) -> GeneratedBatch:
    """A batch of up to twelve rows: features by 10^exponent, logits up to saturation, one to five domains."""
    loss = draw(st.sampled_from(losses))
    n, d, C = draw(st.integers(1, 12)), draw(st.integers(1, 4)), draw(st.integers(2, 4))
    generator = torch.Generator().manual_seed(draw(seeds))
    kind = draw(st.sampled_from(["normal", "normal", "integers", "constant", "sparse", "offset"]))
    exponent = draw(st.one_of(st.just(0), st.integers(*exponents)))
    features = _features(kind, n, d, generator) * 10.0**exponent
    outputs = 1 if loss == "logistic" else draw(st.integers(1, 3)) if loss == "squared_error" else C
    logits = torch.randn(n, outputs, generator=generator, dtype=torch.float64) * draw(st.sampled_from(saturation))
    if loss == "squared_error":
        targets = torch.randn(n, outputs, generator=generator, dtype=torch.float64).float().double()
    else:
        targets = torch.randint(max(outputs, 2), (n,), generator=generator)
    labels = torch.tensor(draw(st.lists(st.sampled_from(LABELS), min_size=1, max_size=5, unique=True)))
    domains = labels[torch.randint(len(labels), (n,), generator=generator)]
    dtype = draw(st.sampled_from(dtypes))
    return GeneratedBatch(loss, draw(st.booleans()), features, logits, targets, domains, dtype)


_DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
]  # fmt: skip


@st.composite
def odd_tensors(draw: st.DrawFn, rows: int) -> Any:
    """Something that was given for a tensor: other types, shapes, values."""
    shape = draw(st.sampled_from([(rows, 3), (rows,), (rows, 1), (rows + 1, 3), (rows, 0), (0, 3), (), (rows, 3, 1)]))
    tensor = torch.ones(shape)
    value = draw(st.sampled_from([1.0, 1.0, 0.0, -1.0, 5.0, float("nan"), float("inf"), 1e30]))
    dtype = draw(st.sampled_from(_DTYPES))
    if dtype.is_floating_point:
        tensor = tensor * value
    tensor = tensor.to(dtype)
    form = draw(st.sampled_from(["dense"] * 4 + ["list", "numpy", "none", "number"]))
    if form == "list":
        return [[1.0]] * rows
    if form == "numpy":
        return torch.ones(shape).numpy()
    return {"none": None, "number": 1.0}.get(form, tensor)
