r"""Cross-entropy of a softmax: residual tensors are the cumulants of a one-hot draw from p.

Legend: P (n, C) probabilities, m the likeliest class of a sample, O its one-hot vector, R = P − O, and
:math:`\pi = 1 - p_m` the mass of the other classes, summed over them so that it keeps its digits.

Cumulants do not change when the draw is shifted, so all of them can be written in R instead of P. A model
that is sure of itself has P next to O: in P the inner products are differences of numbers next to one and
lose every digit in float32, in R every term is as small as the answer. With

.. math:: \rho = R_i\cdot R_j,\quad \tau = R_i\cdot R_j^2 + R_i^2\cdot R_j,\quad
          \upsilon = R_i\cdot R_j^3 + R_i^3\cdot R_j,\quad \omega = R_i^2\cdot R_j^2,\quad
          g = R_i\cdot O_j,\quad h = O_i\cdot R_j,\quad e = O_i\cdot O_j

the inner products are polynomials of a few matrix products, equal to
s + s² − (p·q² + p²·q) and to its counterpart of order 3 with s = p·q.
"""

from collections.abc import Collection

import torch
from torch import Tensor

from momentalign.closed_form._heads import Residuals
from momentalign.closed_form._second_order import polynomial, second_order_cross_gram, second_order_gram
from momentalign.closed_form._self_product import self_product
from momentalign.closed_form._shifted_softmax import shifted_softmax
from momentalign.closed_form._softmax_gradient import softmax_gradient


class SoftmaxResiduals(Residuals):
    """Residual tensors of the cross-entropy, orders 1 to 3."""

    highest_order = 3

    @staticmethod
    def prepare(logits: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        """R (n, C), the mass π (n, 1), the likeliest classes (n,), and O − Y as places and values, both (n, 2)."""
        R, mass, likeliest = shifted_softmax(logits)
        signs = torch.arange(1, -2, -2, dtype=R.dtype, device=R.device)
        wrong = (likeliest != targets)[:, None]
        return R, mass, likeliest, torch.stack([likeliest, targets], 1), wrong * signs

    @classmethod
    def gradient_of(cls, logits: Tensor, targets: Tensor) -> Tensor:
        return softmax_gradient(logits, targets)

    @property
    def gradient(self) -> Tensor:
        """P − Y, from R and O − Y so that a sure and right prediction keeps its digits; shape (n, C)."""
        R, _, _, places, values = self.state
        return R.scatter_add(1, places, values)

    @property
    def likeliest(self) -> Tensor:
        """The likeliest class of each sample, shape (n,)."""
        return self.state[2]

    @property
    def probabilities(self) -> Tensor:
        """P, shape (n, C)."""
        R, mass, likeliest, *_ = self.state
        return R.scatter(1, likeliest[:, None], 1 - mass)

    def grams(self, orders: Collection[int], other: Residuals) -> dict[int, Tensor]:
        assert isinstance(other, SoftmaxResiduals)
        grams = {}
        if 1 in orders:
            gradient = self.gradient
            grams[1] = self_product(gradient) if other is self else gradient @ other.gradient.T
        if 2 in orders or 3 in orders:
            rows, columns = self.state[:3], other.state[:3]
            if 2 in orders:
                grams[2] = second_order_gram(*rows) if other is self else second_order_cross_gram(*rows, *columns)
            if 3 in orders:
                grams[3] = _third_order_gram(*rows, *columns)
        return grams

    def energies(self, orders: Collection[int]) -> dict[int, Tensor]:
        energies = {}
        if 1 in orders:
            energies[1] = self.gradient.square().sum(1)
        if 2 in orders or 3 in orders:
            R, mass, *_ = self.state
            R2, pi = R.square(), mass[:, 0]
            rho, tau, fourth = R2.sum(1), 2 * (R2 * R).sum(1), R2.square().sum(1)
            same = torch.ones_like(pi, dtype=torch.bool)
            if 2 in orders:
                energies[2], _ = polynomial(rho, tau, -pi, -pi, pi, pi, same)
            if 3 in orders:
                energies[3] = _third_order(rho, tau, 2 * fourth, fourth, -pi, -pi, pi, pi, same)
        return energies

    def hessian_times(self, vectors: Tensor) -> Tensor:
        # A constant goes to zero: taken as the likeliest class's entry, nothing has to cancel where P is next to O.
        P, vectors = self.probabilities, vectors - vectors.gather(1, self.likeliest[:, None])
        return P * (vectors - (P * vectors).sum(1, keepdim=True))

    def hessian_diagonal(self) -> Tensor:
        R, mass, likeliest, *_ = self.state
        # p(1 − p): 1 − p is the mass for the likeliest class, and exact enough by subtraction for the others.
        return self.probabilities * (1 - R).scatter(1, likeliest[:, None], mass)

    def coefficients(self, order: int) -> Tensor:
        """Gradient, or p_a p_b for the C(C−1)/2 pairs a < b: A = Σ p_a p_b (e_a − e_b)(e_a − e_b)ᵀ."""
        if order == 1:
            return self.gradient
        P, (a, b) = self.probabilities, self._pairs()
        return P[:, a] * P[:, b]

    def isometric(self, order: int, blocks: Tensor) -> Tensor:
        return blocks if order == 1 else torch.cat([blocks * 2**0.5, self._diagonal(blocks)])

    def dense(self, order: int, blocks: Tensor) -> Tensor:
        if order == 1:
            return blocks
        classes, (a, b) = self.state[0].shape[1], self._pairs()
        every = torch.arange(classes, device=blocks.device)
        hessian = blocks.new_zeros(classes, classes, *blocks.shape[1:])
        hessian = hessian.index_put(
            (torch.cat([a, b, every]), torch.cat([b, a, every])), torch.cat([-blocks, -blocks, self._diagonal(blocks)])
        )
        return hessian.transpose(1, 2)

    def _pairs(self) -> tuple[Tensor, Tensor]:
        R = self.state[0]
        a, b = torch.triu_indices(R.shape[1], R.shape[1], 1, device=R.device)
        return a, b

    def _diagonal(self, blocks: Tensor) -> Tensor:
        """Diagonal blocks: the rows of A sum to zero, so each is the sum of the pairs that hold its class."""
        a, b = self._pairs()
        diagonal = blocks.new_zeros(self.state[0].shape[1], *blocks.shape[1:])
        return diagonal.index_add(0, a, blocks).index_add(0, b, blocks)


def _third_order_gram(R: Tensor, mass: Tensor, top: Tensor, Q: Tensor, other_mass: Tensor, other_top: Tensor) -> Tensor:
    """Inner products of third residuals between n and m samples, shape (n, m)."""
    R2, Q2 = R.square(), Q.square()
    return _third_order(
        rho=R @ Q.T,
        tau=torch.cat([R, R2], 1) @ torch.cat([Q2, Q], 1).T,
        upsilon=torch.cat([R, R2 * R], 1) @ torch.cat([Q2 * Q, Q], 1).T,
        omega=R2 @ Q2.T,
        g=R.index_select(1, other_top),
        h=Q.index_select(1, top).T,
        a=mass,
        b=other_mass.T,
        same=top[:, None] == other_top,
    )


def _third_order(
    rho: Tensor,
    tau: Tensor,
    upsilon: Tensor,
    omega: Tensor,
    g: Tensor,
    h: Tensor,
    a: Tensor,
    b: Tensor,
    same: Tensor,
) -> Tensor:
    """Inner products of third residuals from the products of the legend; a and b are the masses."""
    c, gh = g + h, g * h
    z = 1 + 2 * (rho + c)
    return (
        rho * (1 + 3 * rho + 4 * rho.square() + 12 * c * rho + 6 * c.square() + 12 * (a * h + b * g + gh))
        - 3 * tau * z
        + 2 * upsilon
        + 6 * (omega + a.square() * h + b.square() * g + (2 * (a + b) + c - 1) * gh)
        + torch.where(same, 6 * (rho * z - tau), 0.0)
    )
