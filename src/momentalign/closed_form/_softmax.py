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
from dataclasses import dataclass

import torch
from torch import Tensor

from momentalign.closed_form._heads import Residuals


class SoftmaxResiduals(Residuals):
    """Residual tensors of the cross-entropy, orders 1 to 3."""

    highest_order = 3

    def __init__(self, logits: Tensor, targets: Tensor) -> None:
        self.probabilities = logits.softmax(1)
        self.gradient = self.probabilities - _one_hot(targets, logits)
        self.likeliest = logits.argmax(1)

    def _shifted(self) -> tuple[Tensor, Tensor]:
        """R and the mass π (n, 1) of the classes that are not the likeliest."""
        place = self.likeliest[:, None]
        others = self.probabilities.scatter(1, place, 0.0)
        mass = others.sum(1, keepdim=True)
        return others.scatter(1, place, -mass), mass

    def grams(self, orders: Collection[int], other: Residuals) -> dict[int, Tensor]:
        assert isinstance(other, SoftmaxResiduals)
        grams = {}
        if 1 in orders:
            grams[1] = self.gradient @ other.gradient.T
        if 2 in orders or 3 in orders:
            products = self._products(other, third=3 in orders)
            if 2 in orders:
                grams[2] = products.order_2()
            if 3 in orders:
                grams[3] = products.order_3()
        return grams

    def _products(self, other: "SoftmaxResiduals", third: bool) -> "_Products":
        R, mass = self._shifted()
        R2 = R.square()
        g = R.index_select(1, other.likeliest)
        if other is self:
            Q, Q2, other_mass, h = R, R2, mass.T, g.T
            rho, half = (R @ torch.cat([R, R2]).T).chunk(2, dim=1)
            tau = half + half.T
        else:
            Q, column_mass = other._shifted()
            Q2, other_mass = Q.square(), column_mass.T
            h = Q.index_select(1, self.likeliest).T
            rho = R @ Q.T
            tau = torch.cat([R, R2], 1) @ torch.cat([Q2, Q], 1).T
        return _Products(
            rho=rho,
            tau=tau,
            g=g,
            h=h,
            same=(self.likeliest[:, None] == other.likeliest),
            mass=mass,
            other_mass=other_mass,
            upsilon=torch.cat([R, R2 * R], 1) @ torch.cat([Q2 * Q, Q], 1).T if third else None,
            omega=R2 @ Q2.T if third else None,
        )

    def energies(self, orders: Collection[int]) -> dict[int, Tensor]:
        energies = {}
        if 1 in orders:
            energies[1] = self.gradient.square().sum(1)
        if 2 in orders or 3 in orders:
            R, mass = self._shifted()
            R2, pi = R.square(), mass[:, 0]
            products = _Products(
                rho=R2.sum(1),
                tau=2 * (R2 * R).sum(1),
                g=-pi,
                h=-pi,
                same=torch.ones_like(pi, dtype=torch.bool),
                mass=pi,
                other_mass=pi,
                upsilon=2 * R2.square().sum(1),
                omega=R2.square().sum(1),
            )
            if 2 in orders:
                energies[2] = products.order_2()
            if 3 in orders:
                energies[3] = products.order_3()
        return energies

    def hessian_times(self, vectors: Tensor) -> Tensor:
        # A constant goes to zero: taken as the likeliest class's entry, nothing has to cancel where P is next to O.
        P, vectors = self.probabilities, vectors - vectors.gather(1, self.likeliest[:, None])
        return P * (vectors - (P * vectors).sum(1, keepdim=True))

    def hessian_diagonal(self) -> Tensor:
        R, mass = self._shifted()
        # p(1 − p): 1 − p is the mass for the likeliest class, and exact enough by subtraction for the others.
        return self.probabilities * (1 - R).scatter(1, self.likeliest[:, None], mass)

    def coefficients(self, order: int) -> Tensor:
        """Gradient, or p_a p_b for the C(C−1)/2 pairs a < b: A = Σ p_a p_b (e_a − e_b)(e_a − e_b)ᵀ."""
        if order == 1:
            return self.gradient
        a, b = self._pairs()
        return self.probabilities[:, a] * self.probabilities[:, b]

    def isometric(self, order: int, blocks: Tensor) -> Tensor:
        return blocks if order == 1 else torch.cat([blocks * 2**0.5, self._diagonal(blocks)])

    def dense(self, order: int, blocks: Tensor) -> Tensor:
        if order == 1:
            return blocks
        classes, (a, b) = self.probabilities.shape[1], self._pairs()
        every = torch.arange(classes, device=blocks.device)
        hessian = blocks.new_zeros(classes, classes, *blocks.shape[1:])
        hessian = hessian.index_put(
            (torch.cat([a, b, every]), torch.cat([b, a, every])), torch.cat([-blocks, -blocks, self._diagonal(blocks)])
        )
        return hessian.transpose(1, 2)

    def _pairs(self) -> tuple[Tensor, Tensor]:
        classes = self.probabilities.shape[1]
        a, b = torch.triu_indices(classes, classes, 1, device=self.probabilities.device)
        return a, b

    def _diagonal(self, blocks: Tensor) -> Tensor:
        """Diagonal blocks: the rows of A sum to zero, so each is the sum of the pairs that hold its class."""
        a, b = self._pairs()
        diagonal = blocks.new_zeros(self.probabilities.shape[1], *blocks.shape[1:])
        return diagonal.index_add(0, a, blocks).index_add(0, b, blocks)


@dataclass(frozen=True)
class _Products:
    """The products of the legend, for a block of pairs of samples or for each sample with itself."""

    rho: Tensor
    tau: Tensor
    g: Tensor
    h: Tensor
    same: Tensor
    mass: Tensor
    other_mass: Tensor
    upsilon: Tensor | None
    omega: Tensor | None

    def order_2(self) -> Tensor:
        # ρ(1 + 2e + ρ + 2(g + h)) − τ + 2((g + π_i)(h + π_j) − π_i π_j), in as few passes as that takes
        rho, a, b = self.rho, self.mass, self.other_mass
        factor = torch.add(rho + torch.where(self.same, 3.0, 1.0), self.g + self.h, alpha=2)
        mixed = torch.addcmul(a * b, self.g + a, self.h + b, value=-1)
        return torch.addcmul(torch.add(self.tau, mixed, alpha=2), rho, factor, value=-1).neg()

    def order_3(self) -> Tensor:
        assert self.upsilon is not None and self.omega is not None
        rho, tau, g, h, a, b = self.rho, self.tau, self.g, self.h, self.mass, self.other_mass
        c, gh = g + h, g * h
        z = 1 + 2 * (rho + c)
        return (
            rho * (1 + 3 * rho + 4 * rho.square() + 12 * c * rho + 6 * c.square() + 12 * (a * h + b * g + gh))
            - 3 * tau * z
            + 2 * self.upsilon
            + 6 * (self.omega + a.square() * h + b.square() * g + (2 * (a + b) + c - 1) * gh)
            + torch.where(self.same, 6 * (rho * z - tau), 0.0)
        )


def _one_hot(classes: Tensor, like: Tensor) -> Tensor:
    return torch.zeros_like(like).scatter_(1, classes.long()[:, None], 1.0)
