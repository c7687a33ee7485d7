r"""Spread of the domains' derivatives from the rows' inner products, which fixed features let one compute once.

.. math:: \mathrm{spread} = \sum_{ij} k_{ij}\, S_i M S_j^\top,\qquad
          k_{ij} = \frac{u_i u_j}{K}\Big(\mathrm{same}_{ij} - \frac1K\Big)(x_i\cdot x_j)^r

so value and derivative are one product k S, n²·q, whatever d. For wide features, many classes, and order 3.
"""

from momentalign.linear._losses import Loss
from momentalign.linear._rows import Array, Rows

LARGEST = 2**28
"""Entries of k beyond which it is not formed: 2 GiB, 16,384 rows."""


class KernelTerm:
    """One order through the matrix k.

    Args:
        order: Order r.
        loss: Whose coordinates come in.
        rows: Of the fit.
    """

    def __init__(self, order: int, loss: Loss, rows: Rows) -> None:
        self.order, self.loss = order, loss
        inner = rows.X @ rows.X.T
        kernel = inner.copy() if order > 1 else inner
        for _ in range(order - 1):
            kernel *= inner
        del inner
        K, u = rows.number, rows.shares
        for start, end in zip(rows.starts[:-1], rows.starts[1:], strict=True):
            kernel[start:end] *= -1.0 / K
            kernel[start:end, start:end] *= 1.0 - K
        kernel *= u / K
        kernel *= u[:, None]
        self._kernel = kernel

    def spread(self, S: Array) -> tuple[float, Array]:
        """Spread, and its derivative by S (n, q)."""
        half = self.loss.metric(self.order, self._kernel @ S)
        return float((S * half).sum()), 2.0 * half
