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
s + s² − (p·q² + p²·q) with s = p·q.
"""

from collections.abc import Collection

import torch
from torch import Tensor
from torch.nn import functional

from momentalign.closed_form._heads import Residuals


class SoftmaxResiduals(Residuals):
    """Residual tensors of the cross-entropy, orders 1 to 3."""

    highest_order = 3

    @staticmethod
    def prepare(logits: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        """R (n, C), the mass π (n, 1), the likeliest classes (n,), and O − Y as indices and values, both (n, 2)."""
        R, mass, likeliest = _shifted_softmax(logits)
        signs = torch.arange(1, -2, -2, dtype=R.dtype, device=R.device)
        wrong = (likeliest != targets)[:, None]
        return R, mass, likeliest, torch.stack([likeliest, targets], 1), wrong * signs

    @property
    def losses(self) -> Tensor:
        return functional.cross_entropy(self.logits, self.targets.long(), reduction="none")

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
            tau = torch.cat([R, R2], 1) @ torch.cat([Q2, Q], 1).T
            if 2 in orders:
                grams[2] = _second_order(rho, tau, *shifts, same)
            if 3 in orders:
                R3, Q3 = R2 * R, Q2 * Q
                upsilon, omega = torch.cat([R, R3], 1) @ torch.cat([Q3, Q], 1).T, R2 @ Q2.T
                grams[3] = _third_order(rho, tau, upsilon, omega, *shifts, same)
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

    def inner(self, order: int, blocks: Tensor) -> Tensor:
        flat = blocks.flatten(1)
        if order == 1:
            return flat @ flat.T
        if blocks.shape[1] == 1:  # two classes: the four blocks of a Hessian are the same up to the sign
            return 4 * flat @ flat.T
        diagonal = diagonal_blocks(blocks, self.state[0].shape[1]).flatten(1)
        return 2 * flat @ flat.T + diagonal @ diagonal.T

    def dense(self, order: int, blocks: Tensor) -> Tensor:
        if order == 1:
            return blocks
        classes = self.state[0].shape[1]
        (a, b), every = self._pairs(), torch.arange(classes, device=blocks.device)
        diagonal = diagonal_blocks(blocks[None], classes)[0].unflatten(1, blocks.shape[1:])
        hessian = blocks.new_zeros(classes, classes, *blocks.shape[1:])
        hessian = hessian.index_put(
            (torch.cat([a, b, every]), torch.cat([b, a, every])), torch.cat([-blocks, -blocks, diagonal])
        )
        return hessian.transpose(1, 2)

    def _pairs(self) -> tuple[Tensor, Tensor]:
        R = self.state[0]
        a, b = torch.triu_indices(R.shape[1], R.shape[1], 1, device=R.device)
        return a, b


def incidence(classes: int, like: Tensor) -> Tensor:
    """Which pairs of classes (C, q) have a class."""
    pairs = torch.triu_indices(classes, classes, 1, device=like.device)
    return (pairs[:, None] == torch.arange(classes, device=like.device)[:, None]).any(0).to(like.dtype)


def diagonal_blocks(blocks: Tensor, classes: int) -> Tensor:
    """Diagonal blocks (K, C, ·) from those of the pairs (K, q, …): the rows of A sum to zero."""
    return incidence(classes, blocks) @ blocks.flatten(2)


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
