"""The batch that penalties and functions take: its type and its checks."""

import math
import operator
import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from momentalign.closed_form import HEADS

LOSSES = tuple(HEADS)

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

_SWAPPED = " Are 'features' and 'logits' swapped? Features come first."
_BY_CHANCE = math.log(1e6)
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


def can_read_values(features: Tensor) -> bool:
    """Whether values can be read back from the device: not while compiling or capturing."""
    return not (torch.compiler.is_compiling() or (features.is_cuda and torch.cuda.is_current_stream_capturing()))


def checks_values(validate: bool | None, features: Tensor) -> bool:
    """Whether to check values: if requested, or by default on CPU; never while compiling or capturing."""
    return can_read_values(features) and (features.device.type == "cpu" if validate is None else validate)


def check_batch(
    features: object,
    logits: object,
    targets: object,
    domains: object,
    *,
    loss: str | None,
    num_domains: int | None = None,
    validate: bool | None = None,
) -> HeadBatch:
    """Check shapes, types and, as `validate` asks, values; cast half precision to float32.

    A `loss` of None is for penalties that ignore logits and targets, which then may be anything with n rows.
    """
    features, logits = _floating_matrix("features", features), _floating_matrix("logits", logits)
    domains = _tensor("domains", domains)
    targets = _tensor("targets", targets)
    rows = len(features)
    if features.device.type == "meta":
        raise ValueError("'features' should hold values, but is on the meta device. Move the batch to a real one.")
    for name, tensor in (("logits", logits), ("targets", targets), ("domains", domains)):
        if tensor.ndim == 0 or len(tensor) != rows:
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
    if rows and checks_values(validate, features):
        _check_values(features, logits, targets, domains, loss, num_domains)
    dtype = torch.promote_types(torch.promote_types(features.dtype, logits.dtype), torch.float32)
    return HeadBatch(features.to(dtype), logits.to(dtype), targets, domains)


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


def _tensor(name: str, value: object) -> Tensor:
    if not isinstance(value, Tensor):
        is_text = isinstance(value, list | tuple) and bool(value) and isinstance(value[0], str)
        use = f"torch.as_tensor(pandas.factorize({name})[0])" if is_text else "torch.as_tensor()"
        raise TypeError(f"'{name}' should be a torch.Tensor, but is a {type(value).__name__}. Use {use}.")
    if value.is_nested:
        raise TypeError(f"'{name}' should be one tensor of equal rows, but is nested. Use torch.cat(list({name})).")
    if value.layout != torch.strided:
        raise TypeError(f"'{name}' should be dense, but has layout {value.layout}. Use {name}.to_dense().")
    return value


def _floating_matrix(name: str, value: object) -> Tensor:
    tensor = _tensor(name, value)
    if tensor.dtype not in _FLOATS:
        size = " of 16, 32 or 64 bits" if tensor.is_floating_point() else ""
        raise TypeError(
            f"'{name}' should hold floating-point numbers{size}, but holds {tensor.dtype}. "
            f"Use {name}.{'real' if tensor.is_complex() else 'float()'}."
        )
    if tensor.ndim != 2 or tensor.shape[1] == 0:
        size = "d" if name == "features" else "C"
        raise ValueError(f"'{name}' should have shape (n, {size}), but has shape {tuple(tensor.shape)}.")
    return tensor


def _check_targets(targets: Tensor, features: Tensor, logits: Tensor, loss: str) -> None:
    rows, outputs = logits.shape
    shape = tuple(targets.shape)
    if loss == "cross_entropy":
        if outputs < 2:
            raise ValueError(
                f"'logits' should have at least 2 columns for loss 'cross_entropy', but has {outputs}. "
                "Use loss='logistic' for one logit."
            )
        if targets.dtype not in _INTEGERS:
            raise TypeError(
                f"'targets' should hold class indices (integers), but holds {targets.dtype}. Use targets.long()."
            )
        if targets.ndim != 1:
            raise ValueError(f"'targets' should have shape ({rows},), but has shape {shape}.")
    elif loss == "logistic":
        if outputs != 1:
            raise ValueError(
                f"'logits' should have shape (n, 1) for loss 'logistic', but has shape {tuple(logits.shape)}."
                + (_SWAPPED if features.shape[1] == 1 else "")
            )
        if targets.dtype not in (*_FLOATS, *_INTEGERS, torch.bool):
            raise TypeError(f"'targets' should hold 0 and 1, but holds {targets.dtype}. Use targets.long().")
        if targets.ndim != 1:
            raise ValueError(f"'targets' should have shape ({rows},), but has shape {shape}. Use targets.flatten().")
    else:
        if targets.dtype not in (*_FLOATS, *_INTEGERS):
            raise TypeError(f"'targets' should hold real numbers, but holds {targets.dtype}. Use targets.float().")
        if shape != (rows, outputs) and not (outputs == 1 and shape == (rows,)):
            swapped = _SWAPPED if shape == tuple(features.shape) else ""
            raise ValueError(
                f"'targets' should have the shape of 'logits' {(rows, outputs)}, but has shape {shape}.{swapped}"
            )


def _look_swapped(features: Tensor, logits: Tensor, highest: float) -> bool:
    """Whether there are more logits than features, though the targets would fit the features, hardly by chance."""
    rows, columns, outputs = len(features), features.shape[1], logits.shape[1]
    return highest < columns < outputs and rows * math.log(outputs / columns) > _BY_CHANCE


def _check_values(
    features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, loss: str | None, num_domains: int | None
) -> None:
    for name, tensor in (("features", features), ("logits", logits))[: 1 if loss is None else 2]:
        bad = ~tensor.isfinite()
        if bad.any():
            row = int(bad.any(1).nonzero()[0, 0])
            raise ValueError(
                f"'{name}' should be finite, but has {int(bad.sum())} NaN or infinite, first in row {row}."
            )
    if loss == "squared_error":
        if not targets.isfinite().all():
            raise ValueError("'targets' should be finite, but has NaN or infinite values.")
    elif loss is not None:
        highest = logits.shape[1] - 1 if loss == "cross_entropy" else 1
        low, high = targets.min().item(), targets.max().item()
        if not 0 <= low <= high <= highest:
            # One class too high is more likely a matter of counting from 1.
            fits = loss == "cross_entropy" and low >= 0 and highest + 1 < high < features.shape[1]
            swapped = _SWAPPED if fits else ""
            raise ValueError(
                f"'targets' should lie between 0 and {highest} for loss '{loss}' and logits of shape "
                f"{tuple(logits.shape)}, but lie between {low} and {high}.{swapped}"
            )
        if loss == "cross_entropy" and _look_swapped(features, logits, high):
            warnings.warn(
                f"All targets are below {high + 1}, and 'logits' of shape {tuple(logits.shape)} are wider than "
                f"'features' of shape {tuple(features.shape)}.{_SWAPPED}",
                UserWarning,
                stacklevel=2,
            )
    if num_domains is not None:
        low, high = int(domains.min()), int(domains.max())
        if low < 0 or high >= num_domains:
            raise ValueError(
                f"'domains' should lie between 0 and {num_domains - 1} with num_domains={num_domains}, "
                f"but lie between {low} and {high}."
            )
