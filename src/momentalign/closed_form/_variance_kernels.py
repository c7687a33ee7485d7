"""Triton kernels of `_variance_spread` and its gradient.

The legend is that of `_variance_spread`; D = d plus one with a bias, whose column of ones comes last, j one of the D
columns, and N = CD. Of the samples' gradients Γ a program holds a tile in registers.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from momentalign._triton import AVAILABLE

if AVAILABLE:
    import triton
    import triton.language as tl

    @triton.jit
    def columns(X, i, j, n, d, BIAS: tl.constexpr):
        """Features of the rows i in the columns j, one in the column of the bias and zero outside."""
        x = tl.load(X + i[:, None] * d + j[None, :], mask=(i < n)[:, None] & (j < d)[None, :], other=0.0)
        if BIAS:
            x = tl.where(j[None, :] == d, 1.0, x)
        return x

    @triton.jit
    def spread(
        R, X, domains, labels, past, sums, means, seeds, values, n, d, C, K, decay,
        BIAS: tl.constexpr, PAST: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_K: tl.constexpr,
    ):  # fmt: skip
        """Sums, means, value and its derivative by squared deviations, for one class and some columns."""
        c, D, N = tl.program_id(1), d + BIAS, C * (d + BIAS)
        i, j, k = tl.arange(0, BLOCK_N), tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_K)
        gamma = tl.load(R + i * C + c, mask=i < n, other=0.0)[:, None] * columns(X, i, j, n, d, BIAS)
        own = tl.load(domains + i, mask=i < n, other=0)
        counts = tl.zeros([BLOCK_K], tl.float32)
        mean, s = tl.zeros([BLOCK_K, BLOCK_D], tl.float32), tl.zeros([BLOCK_K, BLOCK_D], tl.float32)
        # Domain by domain: there are few, and a product with the weights would have to be padded to sixteen.
        for e in range(K):
            member = (own == tl.load(labels + e)) & (i < n)
            count = tl.sum(member.to(tl.float32), 0)
            size = tl.maximum(count, 1.0)
            centre = tl.sum(tl.where(member[:, None], gamma, 0.0), 0) / size
            deviation = tl.where(member[:, None], gamma - centre[None, :], 0.0)
            variance = tl.sum(deviation * deviation, 0) / size
            counts = tl.where(k == e, count, counts)
            mean = tl.where((k == e)[:, None], centre[None, :], mean)
            s = tl.where((k == e)[:, None], variance[None, :], s)
        inside = (k < K)[:, None] & (j < D)[None, :]
        address = k[:, None] * N + c * D + j[None, :]
        if PAST:
            s += decay * tl.load(past + address, mask=inside, other=0.0)
        present = tl.minimum(counts, 1.0)
        q = (present / tl.sum(present, 0))[:, None]
        distances = s - tl.sum(q * s, 0)[None, :]
        weighted = q * distances
        tl.store(sums + address, s, mask=inside)
        tl.store(means + address, mean, mask=inside)
        # Twice two from the derivatives of two squares, and the two means: backward has no scale to apply.
        tl.store(seeds + address, weighted * (4.0 / N) / tl.maximum(counts, 1.0)[:, None], mask=inside)
        part = tl.sum(tl.sum(weighted * distances, 1), 0) / N
        tl.store(values + c * tl.num_programs(0) + tl.program_id(0), part)

    @triton.jit
    def slopes(
        R, X, domains, labels, means, seeds, grad, dR, dX, n, d, K,
        C: tl.constexpr, BIAS: tl.constexpr, SPAN: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_D: tl.constexpr,
        BLOCK_K: tl.constexpr, BLOCK_C: tl.constexpr,
    ):  # fmt: skip
        """Gradients of some rows: of R through a span of columns, and of X in those columns."""
        D, N = d + BIAS, C * (d + BIAS)
        i, k = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I), tl.arange(0, BLOCK_K)[None, :]
        classes = tl.arange(0, BLOCK_C)[None, :]
        own, known = tl.load(domains + i, mask=i < n, other=0), tl.load(labels + k, mask=k < K, other=0)
        member = ((own[:, None] == known) & (k < K) & (i < n)[:, None]).to(tl.int32)
        e, known_domain = tl.sum(member * k, 1), tl.sum(member, 1) > 0
        scale = tl.load(grad)
        dR_i = tl.zeros([BLOCK_I, BLOCK_C], tl.float32)
        first = tl.program_id(1) * SPAN
        for start in range(first, tl.minimum(first + SPAN, D), BLOCK_D):
            j = start + tl.arange(0, BLOCK_D)
            x = columns(X, i, j, n, d, BIAS)
            inside = known_domain[:, None] & (j < D)[None, :]
            dX_i = tl.zeros([BLOCK_I, BLOCK_D], tl.float32)
            for c in tl.static_range(C):
                r = tl.load(R + i * C + c, mask=i < n, other=0.0)[:, None]
                address = e[:, None] * N + c * D + j[None, :]
                mean = tl.load(means + address, mask=inside, other=0.0)
                seed = tl.load(seeds + address, mask=inside, other=0.0)
                # That the means move as well adds nothing: deviations from a mean sum to zero.
                dgamma = scale * seed * (r * x - mean)
                dX_i += dgamma * r
                dR_i += tl.where(classes == c, tl.sum(dgamma * x, 1)[:, None], 0.0)
            tl.store(dX + i[:, None] * d + j[None, :], dX_i, mask=(i < n)[:, None] & (j < d)[None, :])
        address = (tl.program_id(1) * n + i[:, None]) * C + classes
        tl.store(dR + address, dR_i, mask=(i < n)[:, None] & (classes < C))
