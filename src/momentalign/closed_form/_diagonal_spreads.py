r"""Spreads over domains of gradients and of the diagonals of Hessians.

Legend: X (n, d) features, one more column of ones with a bias; R (n, C) residuals; V (n, C) diagonals of the second
residuals; W (n, n) weights under which a Gram matrix of samples sums to the spread of their domains' means.

A sample's diagonal is :math:`v_i \otimes x_i^2`, so that inner products are
:math:`(v_i \cdot v_j)(x_i^2 \cdot x_j^2)` and the spreads :math:`\sum R \circ (W \circ XX^\top) R` and
:math:`\sum V \circ (W \circ X^2 X^{2\top}) V`: nothing is read back, and nothing has the size of the head.
"""

from torch import Tensor

from momentalign.closed_form._direct import with_constant
from momentalign.closed_form._domains import number_of_domains, pair_weights, shares
from momentalign.closed_form._heads import Residuals


def diagonal_spreads(residuals: Residuals, features: Tensor, domains: Tensor, bias: bool) -> tuple[Tensor, Tensor]:
    """Spread of the domains' gradients, and of the diagonals of their Hessians; scalars."""
    X, R, V = with_constant(features, bias), residuals.gradient, residuals.hessian_diagonal()
    u = shares(domains, X.dtype)
    W = pair_weights("spread", domains, u, domains, u, number_of_domains(u))
    squares = X.square()
    spreads = (R * ((W * (X @ X.T)) @ R)).sum(), (V * ((W * (squares @ squares.T)) @ V)).sum()
    return spreads[0].relu(), spreads[1].relu()
