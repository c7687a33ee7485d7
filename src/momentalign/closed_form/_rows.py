r"""Rows at a linear head, and the vectors that a penalty compares: one for each domain.

Each costs :math:`O(nKCd)`, linear in the rows, which may have weights: the same lines serve a batch and a full-batch
fit. Where the head is large and the rows are few, Gram matrices of the rows are cheaper than
the vectors: :meth:`HeadRows.gram_square`.
"""

from typing import NamedTuple, Self

import torch
from torch import Tensor

from momentalign.closed_form._heads import Residuals


class HeadRows(NamedTuple):
    """Rows of a batch or of a data set, in float32 or float64.

    Attributes:
        X: Features, the last column constant with a bias, shape (n, d).
        E: Weights that average the rows of each domain, shape (n, K); a column of zeros is a domain without rows.
        q: Weights that average the domains that have rows, shape (K,).
        residuals: Derivatives of the rows' losses by the logits, in the shifted form that keeps their digits.
    """

    X: Tensor
    E: Tensor
    q: Tensor
    residuals: Residuals

    @classmethod
    def of(cls, X: Tensor, E: Tensor, residuals: Residuals) -> Self:
        """Rows with the weights of their domains."""
        present = E.sum(0).round()
        return cls(X, E, present / present.sum(), residuals)

    @property
    def wide(self) -> bool:
        """Whether the head is so large for the rows that Gram matrices are cheaper than vectors."""
        # HGP forward and backward, one CPU thread, vectors and Grams in ms: n=192 d=128 C=2 0.6, 0.9; n=2048 d=256 C=10
        # 18, 191; n=96 d=768 C=1000 67, 8.
        (n, d), C = self.X.shape, self.residuals.outputs
        return n * (d + C) < self.E.shape[1] * d * C

    def means(self, left: Tensor, right: Tensor) -> Tensor:
        """Mean over each domain of the outer products of two vectors per row, shape (K, C, d)."""
        weighted = self.E[:, :, None] * left[:, None, :]
        return (weighted.flatten(1).T @ right).reshape(*weighted.shape[1:], right.shape[1])

    def own(self, values: Tensor) -> Tensor:
        """Of values (n, K, C) those of each row's own domain, shape (n, C)."""
        return torch.where(self.E[:, :, None] > 0, values, 0.0).sum(1)

    def centred(self, vectors: Tensor) -> Tensor:
        """Vectors (K, …) less their mean."""
        return vectors - (self.q @ vectors.flatten(1)).reshape(vectors.shape[1:])

    def mean_square(self, vectors: Tensor) -> Tensor:
        """Mean squared length of vectors (K, …)."""
        return self.q @ vectors.flatten(1).square().sum(1)

    def gram_square(self, left: Tensor, right: Tensor, E: Tensor) -> Tensor:
        """Mean squared length of the sums of left ⊗ right that E (m, K) weighs, without forming them."""
        return self.q @ (E * (((left @ left.T) * (right @ right.T)) @ E)).sum(0).relu()


def gradients(rows: HeadRows) -> Tensor:
    """Gradients of the domains' mean losses, shape (K, C, d)."""
    return rows.means(rows.residuals.gradient, rows.X)


def hessian_times(rows: HeadRows, vectors: Tensor) -> Tensor:
    """Hessians of the domains' mean losses times a vector (K, C, d) for each, shape (K, C, d)."""
    along = rows.own((rows.X @ vectors.flatten(0, 1).T).unflatten(1, vectors.shape[:2]))
    return rows.means(rows.residuals.hessian_times(along), rows.X)


def hessian_diagonals(rows: HeadRows) -> Tensor:
    """Diagonals of the domains' Hessians, shape (K, C, d)."""
    return rows.means(rows.residuals.hessian_diagonal(), rows.X.square())


def variances(rows: HeadRows) -> Tensor:
    """Variances of the rows' gradients within each domain, shape (K, C, d)."""
    return rows.means(rows.residuals.gradient.square(), rows.X.square()) - gradients(rows).square()
