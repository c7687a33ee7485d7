"""Indicator columns: an intercept for each domain while fitting, their mean for a new domain.

A model of all rows explains the domains' different means by whatever features tell the domains apart. With an indicator
column for each domain its coefficients only have to explain what happens within domains. Under L2 the coefficients of
the indicators sum to zero if there is an intercept besides, so the intercept alone is the mean over domains.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from momentalign._types import Array, Integers
from momentalign.linear._head import LinearHead


def add_indicators(features: NDArray[np.floating], domains: Integers) -> Array:
    """Append a column for each domain, 1 in its rows and 0 elsewhere: shape (n, d + K).

    Example:
        >>> add_indicators(np.array([[5.0], [6.0], [7.0]]), np.array([3, 8, 3]))
        array([[5., 1., 0.],
               [6., 0., 1.],
               [7., 1., 0.]])
    """
    indices = np.unique(domains, return_inverse=True)[1]
    extended = np.zeros((len(features), features.shape[1] + int(indices.max()) + 1))
    extended[:, : features.shape[1]] = features
    extended[np.arange(len(features)), features.shape[1] + indices] = 1.0
    return extended


def drop_indicators(head: LinearHead, columns: int) -> LinearHead:
    """The head without its coefficients from `columns` on, as it is used on other domains."""
    return replace(head, coef=head.coef[:, :columns].copy())
