"""Scaling of features by a power of two, so that products of them neither overflow nor underflow.

The scale is exact and computed on the device: ordinary numbers keep all their digits, and nothing is read back.
"""

import math

import torch
from torch import Tensor

from momentalign.closed_form._direct import with_constant


def unit_scale(values: Tensor) -> Tensor:
    """A power of two by which the largest of some numbers is about 1; scalar, without a gradient.

    Example:
        >>> unit_scale(torch.tensor([3.0, -1000.0]))
        tensor(0.0010)
    """
    limits = torch.finfo(values.dtype)
    most = -math.ceil(math.log2(limits.tiny))
    return values.detach().abs().amax().log2().ceil().neg().clamp(-most, most).exp2()


def unit_features(features: Tensor, bias: bool) -> Tensor:
    """Features, with a bias the constant one as well, in units in which the largest is about 1.

    For quotients that do not change with the scale of a head's input: the result stands for features without a bias.
    """
    X = with_constant(features, bias)
    return X * unit_scale(X)
