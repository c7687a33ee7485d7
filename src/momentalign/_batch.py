"""The batch that penalties and functions take: its type and its checks."""

import math
import operator
import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from momentalign.closed_form import HEADS, can_read_values

LOSSES = tuple(HEADS)

_INTEGERS = frozenset((torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))

_SWAPPED = " Are 'features' and 'logits' swapped? Features come first."
_LARGE = 1e3  # features that standardising would help


class HeadBatch(NamedTuple):
    """A checked batch at the linear head, in float32 or float64.

    Attributes:
        features: Input of the head, shape (n, d).
        logits: Output of the head, shape (n, C).
        targets: Class indices, shape (n,), or real numbers, shape (n, C).
        domains: Domain of each row, integers, shape (n,).
    """

    features: Tensor
    logits: Tensor
    targets: Tensor
    domains: Tensor


def check_order(order: object, loss: str) -> int:
    """Return `order` if the loss has a closed form for it."""
    if isinstance(order, bool) or not isinstance(order, int):
        raise TypeError(f"'order' should be an integer, but is {order!r}.")
    highest = HEADS[loss].highest_order
    if order < 1 or (highest is not None and order > highest):
        allowed = f"between 1 and {highest}" if highest is not None else "at least 1"
        hint = " One logit with loss='logistic' takes any order." if order > 1 else ""
        raise ValueError(f"'order' should be {allowed} for loss '{loss}', but is {order}.{hint}")
    return operator.index(order)  # torch.compile makes a symbol of an order that changes between calls


def checks_values(validate: bool | None, features: Tensor) -> bool:
    """Whether to check values: if requested, or by default on CPU; never while compiling or capturing."""
    return (features.is_cpu if validate is None else validate) and can_read_values(features)


def check_batch(features: object, logits: object, targets: object, domains: object, *, loss: str | None) -> HeadBatch:
    """Check types and shapes; cast half precision to float32.

    A `loss` of None is for penalties that ignore logits and targets, which then may be anything with n rows.
    """
    names = {"features": features, "logits": logits, "targets": targets, "domains": domains}
    for name, value in names.items():
        if not isinstance(value, Tensor):
            raise TypeError(
                f"'{name}' should be a torch.Tensor, but is a {type(value).__name__}. Use torch.as_tensor(), for names "
                f"of domains torch.as_tensor(pandas.factorize({name})[0])."
            )
    assert isinstance(features, Tensor)
    assert isinstance(logits, Tensor)
    assert isinstance(targets, Tensor)
    assert isinstance(domains, Tensor)
    for name, tensor, size in (("features", features, "d"), ("logits", logits, "C")):
        if not tensor.is_floating_point():
            raise TypeError(f"'{name}' should hold floating-point numbers, but holds {tensor.dtype}.")
        if tensor.ndim != 2 or tensor.shape[1] == 0:
            raise ValueError(f"'{name}' should have shape (n, {size}), but has shape {tuple(tensor.shape)}.")
    rows = features.shape[0]
    for name, tensor in (("logits", logits), ("targets", targets), ("domains", domains)):
        if tensor.ndim == 0 or tensor.shape[0] != rows:
            raise ValueError(
                f"'{name}' should have one entry per row of 'features' ({rows}), but has shape {tuple(tensor.shape)}."
            )
        if tensor.device != features.device:
            raise ValueError(f"'{name}' should be on {features.device} like 'features', but is on {tensor.device}.")
    if domains.ndim != 1:
        raise ValueError(f"'domains' should have shape ({rows},), but has shape {tuple(domains.shape)}.")
    if domains.dtype not in _INTEGERS:
        raise TypeError(f"'domains' should hold integers, but holds {domains.dtype}. Use domains.long().")
    if loss is not None:
        _check_targets(targets, features, logits, loss)
    if features.dtype != torch.float32 or logits.dtype != torch.float32:
        dtype = torch.promote_types(torch.promote_types(features.dtype, logits.dtype), torch.float32)
        features, logits = features.to(dtype), logits.to(dtype)
    return HeadBatch(features, logits, targets, domains)


def _check_targets(targets: Tensor, features: Tensor, logits: Tensor, loss: str) -> None:
    rows, outputs = logits.shape
    if loss == "cross_entropy" and outputs < 2:
        raise ValueError(
            f"'logits' should have at least 2 columns for loss 'cross_entropy', but has {outputs}. "
            "Use loss='logistic' for one logit."
        )
    if loss == "logistic" and outputs != 1:
        swapped = _SWAPPED if features.shape[1] == 1 else ""
        raise ValueError(f"'logits' should have shape (n, 1) for loss 'logistic', but has {outputs} columns.{swapped}")
    if loss == "cross_entropy" and targets.dtype not in _INTEGERS:
        raise TypeError(
            f"'targets' should hold class indices (integers), but holds {targets.dtype}. Use targets.long()."
        )
    if loss != "squared_error":
        if targets.ndim != 1:
            raise ValueError(
                f"'targets' should have shape ({rows},), but has shape {tuple(targets.shape)}. Use targets.flatten()."
            )
    elif targets.shape != logits.shape and not (outputs == 1 and targets.ndim == 1):
        swapped = _SWAPPED if targets.shape == features.shape else ""
        raise ValueError(
            f"'targets' should have the shape of 'logits' {tuple(logits.shape)}, but has shape "
            f"{tuple(targets.shape)}.{swapped}"
        )


def check_inputs(batch: HeadBatch, loss: str | None) -> None:
    """Check that features, logits and real targets are finite."""
    names = ["features"] if loss is None else ["features", "logits", *(["targets"] if loss == "squared_error" else [])]
    for name in names:
        tensor = getattr(batch, name)
        if math.isfinite(tensor.sum().item()):
            continue
        bad = ~tensor.isfinite()  # a sum of finite values may overflow
        if bad.any():
            row = int(bad.nonzero()[0, 0])
            raise ValueError(
                f"'{name}' should be finite, but has {int(bad.sum())} NaN or infinite, first in row {row}."
            )


def check_ranges(batch: HeadBatch, loss: str | None, num_domains: int | None = None) -> None:
    """Check that classes are those of the logits, and domains 0 … num_domains − 1 if their number is given."""
    features, logits, targets, domains = batch
    if loss in ("cross_entropy", "logistic"):
        highest = logits.shape[1] - 1 if loss == "cross_entropy" else 1
        low, high = (limit.item() for limit in targets.aminmax())
        if not 0 <= low <= high <= highest:
            # One class too high is more likely a matter of counting from 1.
            fits = loss == "cross_entropy" and low >= 0 and highest + 1 < high < features.shape[1]
            raise ValueError(
                f"'targets' should lie between 0 and {highest} for loss '{loss}' and logits of shape "
                f"{tuple(logits.shape)}, but lie between {low} and {high}.{_SWAPPED if fits else ''}"
            )
    if num_domains is not None:
        low, high = (int(limit) for limit in domains.aminmax())
        if low < 0 or high >= num_domains:
            raise ValueError(
                f"'domains' should lie between 0 and {num_domains - 1} with num_domains={num_domains}, "
                f"but lie between {low} and {high}."
            )


def warn_of_probabilities(batch: HeadBatch, loss: str | None) -> None:
    """Warn of logits that are a softmax's output."""
    logits = batch.logits
    if loss == "cross_entropy" and bool((logits >= 0).all()) and torch.allclose(logits.sum(1), logits.new_ones(())):
        text = "'logits' look like probabilities: their rows sum to 1. Pass the head's output, before the softmax."
        warnings.warn(text, UserWarning, stacklevel=2)


def check_finite(name: str, value: Tensor, features: Tensor, validate: bool | None = None) -> None:
    """Check a result of finite inputs for overflow, where values are checked."""
    if checks_values(validate, features) and not value.isfinite().all():
        largest = features.abs().max().item()
        cause = (
            f"features up to {largest:.2g} are too large for it. Standardise them, or use float64"
            if largest > _LARGE
            else "look for a division by 0, a root or logarithm of 0, or use float64"
        )
        first = value[~value.isfinite()][0].item()
        found = f"is {first}" if value.ndim == 0 else f"holds {first}"
        raise ValueError(f"{name} should be finite, but {found} in {value.dtype}: {cause}.")
