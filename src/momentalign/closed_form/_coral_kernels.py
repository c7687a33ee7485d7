"""Triton kernels of `_coral_distances` and their gradient.

The first kernel, `shares`, is that of `_softmax_kernels`: as there, share is u. The rest of the legend is that of
`_coral_distances`; scaled (n,) = u t/d, and B (n, n) the weights of Q² times Q.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from momentalign._triton import AVAILABLE

if AVAILABLE:
    import triton
    import triton.language as tl

    from momentalign.closed_form._softmax_kernels import block, inner, number_of_domains, shares

    __all__ = ["centre", "pairs", "shares", "slopes"]

    @triton.jit
    def scales(u, number, d):
        """Scaled of the rows with the shares u."""
        return tl.where(number > 1.0, u * (2.0 / d) / tl.maximum(number - 1.0, 1.0), 0.0)

    @triton.jit
    def centre(
        X, domains, share, centred, weighted_means, values, n, d,
        BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr, BLOCK_D: tl.constexpr,
    ):  # fmt: skip
        """Deviations from the domain's mean, the weighted mean, and their contribution to the value."""
        i, k = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I), tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
        number = number_of_domains(share, n, 128)
        middle = tl.zeros([BLOCK_D], tl.float32)
        for start in range(0, n, BLOCK_J):
            j = start + tl.arange(0, BLOCK_J)
            u_j = tl.load(share + j, mask=j < n, other=0.0) / number
            middle += tl.sum(u_j[:, None] * block(X, j, k[None, :], n, d), 0)
        own, u = tl.load(domains + i, mask=i < n, other=0), tl.load(share + i, mask=i < n, other=0.0)
        means = tl.zeros([BLOCK_I, BLOCK_D], tl.float32)
        for start in range(0, n, BLOCK_J):
            j = start + tl.arange(0, BLOCK_J)
            together = (own[:, None] == tl.load(domains + j, mask=j < n, other=0)[None, :]) & (j < n)[None, :]
            shifted = block(X, j, k[None, :], n, d) - middle[None, :]
            means += tl.dot(tl.where(together, u[:, None], 0.0), shifted, input_precision="ieee")
        address, inside = i[:, None] * d + k[None, :], (i < n)[:, None] & (k < d)[None, :]
        means = tl.where(inside, means, 0.0)
        weighted = scales(u, number, d)[:, None] * means
        tl.store(centred + address, block(X, i, k[None, :], n, d) - middle[None, :] - means, mask=inside)
        tl.store(weighted_means + address, weighted, mask=inside)
        part = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
        tl.store(values + part, tl.sum(tl.sum(weighted * means, 1), 0))

    @triton.jit
    def pairs(
        centred, domains, share, B, values, n, d, BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr, BLOCK_D: tl.constexpr
    ):
        """A tile of B, and its contribution to the value."""
        i = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I)
        j = tl.program_id(1) * BLOCK_J + tl.arange(0, BLOCK_J)
        Q = tl.zeros([BLOCK_I, BLOCK_J], tl.float32)
        for start in range(0, d, BLOCK_D):
            k = start + tl.arange(0, BLOCK_D)[None, :]
            Q += inner(block(centred, i, k, n, d), block(centred, j, k, n, d))
        number = number_of_domains(share, n, 128)
        u, v = tl.load(share + i, mask=i < n, other=0.0), tl.load(share + j, mask=j < n, other=0.0)
        own, other = tl.load(domains + i, mask=i < n, other=0), tl.load(domains + j, mask=j < n, other=0)
        shifted = (own[:, None] == other[None, :]).to(tl.float32) - 1.0 / number
        # 1 − u is at least a half but for single rows, whose deviations are zero.
        left = scales(u, number, d) / tl.maximum(1.0 - u, 0.5)
        right = v / tl.maximum(1.0 - v, 0.5) / d
        weighted = left[:, None] * right[None, :] * shifted * Q
        tl.store(B + i[:, None] * n + j[None, :], weighted, mask=(i < n)[:, None] & (j < n)[None, :])
        part = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
        tl.store(values + part, tl.sum(tl.sum(weighted * Q, 1), 0))

    @triton.jit
    def slopes(
        centred, weighted_means, B, dmean, dcovariance, dX, n, d,
        BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr, BLOCK_D: tl.constexpr,
    ):  # fmt: skip
        """The gradient in some columns of some rows."""
        i = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I)
        k = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
        through_Q = tl.zeros([BLOCK_I, BLOCK_D], tl.float32)
        for start in range(0, n, BLOCK_J):
            j = start + tl.arange(0, BLOCK_J)
            through_Q += tl.dot(block(B, i, j[None, :], n, n), block(centred, j, k, n, d), input_precision="ieee")
        gradient = 2.0 * tl.load(dmean) * block(weighted_means, i, k, n, d) + 4.0 * tl.load(dcovariance) * through_Q
        tl.store(dX + i[:, None] * d + k, gradient, mask=(i < n)[:, None] & (k < d))
