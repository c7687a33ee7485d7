r"""Cross-entropy of a softmax: residual tensors are the cumulants of a one-hot draw from p.

Legend: P (n, C) probabilities, m the likeliest class of a sample, O its one-hot vector, R = P − O, and
:math:`\pi = 1 - p_m` the mass of the other classes, summed over them so that it keeps its digits.

Cumulants do not change when the draw is shifted, so all of them can be written in R instead of P. A confident
model has P close to O: in P the inner products are differences of numbers close to one and lose every digit in
float32, in R every term is as small as the result. With

.. math:: \rho = R_i\cdot R_j,\quad \tau = R_i\cdot R_j^2 + R_i^2\cdot R_j,\quad
          \upsilon = R_i\cdot R_j^3 + R_i^3\cdot R_j,\quad \omega = R_i^2\cdot R_j^2,\quad
          g = R_i\cdot O_j,\quad h = O_i\cdot R_j,\quad e = O_i\cdot O_j

the inner products are polynomials of a few matrix products. That of order 2 is
:math:`\rho\,(\rho + 1 + 2(e + g + h)) - \tau + 2(\pi_i h + \pi_j g + gh)`, equal to
s + s² − (p·q² + p²·q) with s = p·q. That of order 4 equals, with :math:`s_{kl} = p^k \cdot q^l`,

.. math:: s + 7s^2 + 24s^3 + 36s^4 - (7 + 36s + 72s^2)\,(s_{12} + s_{21}) + 12(1 + 2s)(s_{13} + s_{31})
          + (42 + 96s)\,s_{22} + 18(s_{12}^2 + s_{21}^2) + 24 s_{12}s_{21} - 6(s_{14} + s_{41}) - 48(s_{23} + s_{32})

which is :math:`\langle\kappa_4,\kappa_4\rangle` of :math:`\kappa_4 = \mathrm E[(e_a - p)^{\otimes 4}]` less the three
pairings of :math:`A \otimes A`.
"""

from collections.abc import Collection

import torch
from torch import Tensor

from momentalign.closed_form._heads import Residuals


class SoftmaxResiduals(Residuals):
    """Residual tensors of the cross-entropy, orders 1 to 4."""

    highest_order = 4

    @staticmethod
    def prepare(logits: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        """R (n, C), the mass π (n, 1), the likeliest classes (n,), and O − Y as indices and values, both (n, 2)."""
        R, mass, likeliest = _shifted_softmax(logits)
        signs = torch.arange(1, -2, -2, dtype=R.dtype, device=R.device)
        wrong = (likeliest != targets)[:, None]
        return R, mass, likeliest, torch.stack([likeliest, targets], 1), wrong * signs

    @property
    def gradient(self) -> Tensor:
        """P − Y, from R and O − Y so that a confident and correct prediction keeps its digits; shape (n, C)."""
        R, _, _, indices, values = self.state
        return R.scatter_add(1, indices, values)

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
            grams[1] = gradient @ (gradient if other is self else other.gradient).T
        if max(orders) > 1:
            (R, mass, top, *_), (Q, other_mass, other_top, *_) = self.state, other.state
            R2, Q2 = R.square(), Q.square()
            rho = R @ Q.T
            shifts = R.index_select(1, other_top), Q.index_select(1, top).T, mass, other_mass.T
            same = top[:, None] == other_top
            if 2 in orders or 3 in orders:
                tau = torch.cat([R, R2], 1) @ torch.cat([Q2, Q], 1).T
            if 2 in orders:
                grams[2] = _second_order(rho, tau, *shifts, same)
            if max(orders) > 2:
                R3, Q3 = R2 * R, Q2 * Q
                upsilon, omega = torch.cat([R, R3], 1) @ torch.cat([Q3, Q], 1).T, R2 @ Q2.T
            if 3 in orders:
                grams[3] = _third_order(rho, tau, upsilon, omega, *shifts, same)
            if 4 in orders:
                left, right = torch.cat([R, 8 * R2, 8 * R3, R2 * R2], 1), torch.cat([Q2 * Q2, Q3, Q2, Q], 1)
                grams[4] = _fourth_order(rho, R @ Q2.T, R2 @ Q.T, upsilon, omega, left @ right.T, *shifts, same)
        return grams

    def energies(self, orders: Collection[int]) -> dict[int, Tensor]:
        energies = {}
        if 1 in orders:
            energies[1] = self.gradient.square().sum(1)
        if max(orders) > 1:
            R, mass, *_ = self.state
            R2, pi = R.square(), mass[:, 0]
            rho, cubes, fourth = R2.sum(1), (R2 * R).sum(1), R2.square().sum(1)
            shifts = -pi, -pi, pi, pi, torch.ones_like(pi, dtype=torch.bool)
            if 2 in orders:
                energies[2] = _second_order(rho, 2 * cubes, *shifts)
            if 3 in orders:
                energies[3] = _third_order(rho, 2 * cubes, 2 * fourth, fourth, *shifts)
            if 4 in orders:
                fifth = (R2.square() * R).sum(1)
                energies[4] = _fourth_order(rho, cubes, cubes, 2 * fourth, fourth, 18 * fifth, *shifts)
        return energies

    def hessian_times(self, vectors: Tensor) -> Tensor:
        # A constant maps to zero: with the likeliest class's entry for it nothing cancels where P is close to O.
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
        if order == 1:
            return blocks
        if len(blocks) == 1:  # two classes: the four blocks of a Hessian are the same up to the sign
            return 2 * blocks
        return torch.cat([blocks * 2**0.5, self._diagonal(blocks)])

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
        """Diagonal blocks: the rows of A sum to zero, so each is the sum over the pairs with its class."""
        a, b = self._pairs()
        diagonal = blocks.new_zeros(self.state[0].shape[1], *blocks.shape[1:])
        return diagonal.index_add(0, a, blocks).index_add(0, b, blocks)


def _shifted_softmax(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """R (n, C), π (n, 1) and the likeliest class (n,).

    P enters through the other classes alone, so that its gradient is zero at the likeliest class and nothing cancels
    in the softmax's backward pass either.
    """
    likeliest = logits.argmax(1)
    others = logits.softmax(1).scatter(1, likeliest[:, None], 0.0)
    mass = others.sum(1, keepdim=True)
    return others.scatter(1, likeliest[:, None], -mass), mass, likeliest


def _second_order(rho: Tensor, tau: Tensor, g: Tensor, h: Tensor, a: Tensor, b: Tensor, same: Tensor) -> Tensor:
    """Inner products of second residuals from the products of the legend; a and b are the masses."""
    t = torch.add(rho, g + h + same, alpha=2) + 1
    mixed = torch.addcmul(g * (h + b), a, h)
    return torch.add(rho * t - tau, mixed, alpha=2)


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


def _fourth_order(
    rho: Tensor,
    x: Tensor,
    y: Tensor,
    upsilon: Tensor,
    omega: Tensor,
    psi: Tensor,
    g: Tensor,
    h: Tensor,
    a: Tensor,
    b: Tensor,
    same: Tensor,
) -> Tensor:
    r"""Inner products of fourth residuals from the products of the legend; a and b are the masses.

    Moreover x = R_i · R_j², y = R_i² · R_j and ψ = R_i · R_j⁴ + R_i⁴ · R_j + 8 (R_i² · R_j³ + R_i³ · R_j²).
    """
    e, tau, gh, mass = same.to(rho.dtype), x + y, g * h, a + b
    sigma = g + h + e
    s, mixed = rho + sigma, torch.addcmul(h * a + gh, g, b)  # s is p · q
    u, v = g * (g + 2 * (b + h + e)) + h + e, h * (h + 2 * (a + g + e)) + g + e
    linear = (
        1
        + sigma * (2 + sigma * (24 * sigma - 12) + 96 * mixed)
        + 72 * (e * mixed + h * a.square() + g * b.square())
        + gh * (192 * mass + 120 * sigma - 120)
    )
    masses = 36 * mass.square() - 24 * (a * b + mass) + 6
    constant = (
        mixed * (1 - 12 * e)
        + h * (12 * a**3 - 6 * a * h)
        + g * (12 * b**3 - 6 * b * g)
        + gh * (12 * (g * (g + 3 * a) + h * (h + 3 * b)) + 48 * mixed - 24 * sigma + masses)
    )
    return (
        rho * (linear + rho * (7 + 144 * (sigma.square() + mixed) + rho * (24 + 144 * sigma + 36 * rho)))
        + tau * (18 * tau - 7 - 48 * mixed - 36 * (s.square() + rho * (s + sigma + 1)))
        - 12 * (x * (y + u) + v * y)
        + 12 * upsilon * (1 + 2 * s)
        + 6 * omega * (7 + 16 * s)
        - 6 * psi
        + 2 * constant
    )
