"""Triton kernels of `_decayed_spreads` and their gradients.

The legend is that of `_decayed_spreads`. D = d plus one with a bias, whose column of ones comes last. A Hessian is T
blocks of D x D: for two classes one, 2 p_0 p_1 x xᵀ; for more √2 p_a p_b x xᵀ for the pairs a < b, row by row, then
p_a (1 − p_a) x xᵀ for each class. P (n, C) are the probabilities, Q = 1 − P.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from momentalign._triton import AVAILABLE

if AVAILABLE:
    import triton
    import triton.language as tl

    from momentalign.closed_form._product_kernels import less_mean
    from momentalign.closed_form._softmax_kernels import residuals
    from momentalign.closed_form._variance_kernels import columns

    @triton.jit
    def classes_of(t, C: tl.constexpr):
        """Classes of a Hessian's block t: a < b for a pair, a = b on the diagonal."""
        a = t * 0
        for row in tl.static_range(1, C):
            a = tl.where(t >= row * (2 * C - row - 1) // 2, row, a)
        b = t - a * (2 * C - a - 1) // 2 + a + 1
        diagonal = t - C * (C - 1) // 2
        return tl.where(diagonal < 0, a, diagonal), tl.where(diagonal < 0, b, diagonal)

    @triton.jit
    def pick(values, c, a):
        """Column a of some rows."""
        return tl.sum(tl.where(c == a, values, 0.0), 1)

    @triton.jit
    def probabilities(R, mass, top, c):
        """P and Q of some rows, and a mask of their likeliest classes."""
        likeliest = c == top[:, None]
        P = tl.where(likeliest, 1.0 - mass[:, None], R)
        return P, tl.where(likeliest, mass[:, None], 1.0 - R), likeliest

    @triton.jit
    def coefficients(P, Q, c, a, b, C: tl.constexpr):
        """Factors of x xᵀ in a block, for some rows."""
        SCALE: tl.constexpr = 2.0 if C == 2 else 1.4142135623730951
        return pick(P, c, a) * tl.where(a == b, pick(Q, c, a), SCALE * pick(P, c, b))

    @triton.jit
    def coefficient_slopes(P, Q, c, a, b, C: tl.constexpr):
        """Derivatives of :func:`coefficients` by P."""
        SCALE: tl.constexpr = 2.0 if C == 2 else 1.4142135623730951
        through_a = tl.where(a == b, pick(Q, c, a) - pick(P, c, a), SCALE * pick(P, c, b))
        through_b = tl.where(a == b, 0.0, SCALE * pick(P, c, a))
        return tl.where(c == a, through_a[:, None], 0.0) + tl.where(c == b, through_b[:, None], 0.0)

    @triton.jit
    def align(
        X, logits, targets, domains, labels, past, sums, deviations, n, d, K, z_n, z_c, decay, t, m, j,
        GRADIENT: tl.constexpr, C: tl.constexpr, BIAS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
        BLOCK_D: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_C: tl.constexpr,
    ):  # fmt: skip
        """Sums and deviations in rows m and columns j of the gradients or of block t; their spread, and the counts."""
        BLOCKS: tl.constexpr = 1 if GRADIENT or C == 2 else C * (C + 1) // 2
        D, k, c = d + BIAS, tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_C)[None, :]
        if not GRADIENT:
            a, b = classes_of(t, C)
        s, counts = tl.zeros([BLOCK_K, BLOCK_M, BLOCK_D], tl.float32), tl.zeros([BLOCK_K], tl.float32)
        for e in range(K):
            total, member_count = tl.zeros([BLOCK_M, BLOCK_D], tl.float32), tl.zeros([BLOCK_K], tl.float32)
            for start in range(0, n, BLOCK_N):
                i = start + tl.arange(0, BLOCK_N)
                member = (tl.load(domains + i, mask=i < n, other=0) == tl.load(labels + e)) & (i < n)
                count = tl.sum(member.to(tl.float32), 0)
                member_count += count
                if count > 0:  # a batch is often sorted by domain
                    R, G, mass, top = residuals(logits, targets, i, c, n, C, z_n, z_c)
                    if GRADIENT:
                        left = G
                    else:
                        P, Q, _ = probabilities(R, mass, top, c)
                        left = coefficients(P, Q, c, a, b, C)[:, None] * columns(X, i, m, n, d, BIAS)
                    left = tl.where(member[:, None], left, 0.0)
                    total += tl.dot(tl.trans(left), columns(X, i, j, n, d, BIAS), input_precision="ieee")
            counts = tl.where(k == e, member_count, counts)
            s = tl.where((k == e)[:, None, None], total[None, :, :], s)
        s /= tl.maximum(counts, 1.0)[:, None, None]
        M = C if GRADIENT else D
        inside = (k < K)[:, None, None] & (m < M)[None, :, None] & (j < D)[None, None, :]
        address = ((k[:, None, None] * BLOCKS + t) * M + m[None, :, None]) * D + j[None, None, :]
        s += decay * tl.load(past + address, mask=inside, other=0.0)
        present = tl.minimum(counts, 1.0)
        q = (present / tl.sum(present, 0))[:, None, None]
        distances = s - tl.sum(q * s, 0)[None, :, :]
        weighted = q * distances
        tl.store(sums + address, s, mask=inside)  # may be where the past was: each program reads and writes its own
        tl.store(deviations + address, weighted, mask=inside)
        return tl.sum(tl.sum(tl.sum(tl.where(inside, weighted * distances, 0.0), 2), 1), 0), counts

    @triton.jit
    def spreads(
        X, logits, targets, domains, labels, past_first, past_second, first, second, first_deviations,
        second_deviations, weights, values, n, d, K, z_n, z_c, decay, by_first, by_second,
        C: tl.constexpr, BIAS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_K: tl.constexpr,
        BLOCK_C: tl.constexpr,
    ):  # fmt: skip
        """A tile of the Hessians, or in the first programs of the gradients, and its part of the spread, divided."""
        tile, number, tiles = tl.program_id(0), tl.program_id(1) - 1, tl.num_programs(0)
        parts = (tl.num_programs(1) - 1) * tiles
        j, k = tile * BLOCK_D + tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_K)
        if number < 0:
            part, counts = align(
                X, logits, targets, domains, labels, past_first, first, first_deviations, n, d, K, z_n, z_c, decay,
                0, tl.arange(0, BLOCK_C), j, True, C, BIAS, BLOCK_C, BLOCK_N, BLOCK_D, BLOCK_K, BLOCK_C,
            )  # fmt: skip
            tl.store(values + tile, part / by_first)
            if tile == 0:
                tl.store(weights + k, tl.where(counts > 0, 1.0 / tl.maximum(counts, 1.0), 0.0), mask=k < K)
        else:
            m = number % tiles * BLOCK_D + tl.arange(0, BLOCK_D)
            part, _ = align(
                X, logits, targets, domains, labels, past_second, second, second_deviations, n, d, K, z_n, z_c, decay,
                number // tiles, m, j, False, C, BIAS, BLOCK_D, BLOCK_N, BLOCK_D, BLOCK_K, BLOCK_C,
            )  # fmt: skip
            index = number * tiles + tile
            tl.store(values + parts + index, part / by_second)
            if index >= tiles:  # gradients have fewer parts
                tl.store(values + index, 0.0)

    @triton.jit
    def slopes(
        X, logits, targets, domains, labels, first_deviations, second_deviations, weights, gradient, hessian, dX,
        dlogits, n, d, K, z_n, z_c, by_first, by_second,
        C: tl.constexpr, BIAS: tl.constexpr, SPAN: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr,
        BLOCK_D: tl.constexpr, BLOCK_C: tl.constexpr,
    ):  # fmt: skip
        """Gradients of some rows: of the logits through a span of columns, and of X in those columns."""
        BLOCKS: tl.constexpr = 1 if C == 2 else C * (C + 1) // 2
        D, c = d + BIAS, tl.arange(0, BLOCK_C)[None, :]
        i = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I)
        R, G, mass, top = residuals(logits, targets, i, c, n, C, z_n, z_c)
        P, Q, likeliest = probabilities(R, mass, top, c)
        # Twice from the squares.
        by_gradient, by_hessian = 2.0 * tl.load(gradient) / by_first, 2.0 * tl.load(hessian) / by_second
        own = tl.load(domains + i, mask=i < n, other=0)
        dP = tl.zeros([BLOCK_I, BLOCK_C], tl.float32)
        begin = tl.program_id(1) * SPAN
        for start in range(begin, tl.minimum(begin + SPAN, D), BLOCK_D):
            j = start + tl.arange(0, BLOCK_D)
            x = columns(X, i, j, n, d, BIAS)
            dX_i = tl.zeros([BLOCK_I, BLOCK_D], tl.float32)
            for e in range(K):
                member = (own == tl.load(labels + e)) & (i < n)
                if tl.sum(member.to(tl.int32), 0) > 0:
                    w = tl.where(member, tl.load(weights + e), 0.0)[:, None]
                    k = tl.arange(0, BLOCK_C)[:, None]
                    address = first_deviations + (e * C + k) * D + j[None, :]
                    towards = tl.load(address, mask=(k < C) & (j < D)[None, :], other=0.0)
                    dX_i += by_gradient * w * tl.dot(G, towards, input_precision="ieee")
                    dP += by_gradient * w * tl.dot(x, tl.trans(towards), input_precision="ieee")
                    for t in range(BLOCKS):
                        y = tl.zeros([BLOCK_I, BLOCK_D], tl.float32)
                        for row in range(0, D, BLOCK_J):
                            m = row + tl.arange(0, BLOCK_J)
                            plane = second_deviations + ((e * BLOCKS + t) * D + m[:, None]) * D + j[None, :]
                            block = tl.load(plane, mask=(m < D)[:, None] & (j < D)[None, :], other=0.0)
                            y += tl.dot(columns(X, i, m, n, d, BIAS), block, input_precision="ieee")
                        y *= by_hessian * w
                        a, b = classes_of(t, C)
                        dX_i += 2.0 * coefficients(P, Q, c, a, b, C)[:, None] * y
                        dP += tl.sum(x * y, 1)[:, None] * coefficient_slopes(P, Q, c, a, b, C)
            tl.store(dX + i[:, None] * d + j[None, :], dX_i, mask=(i < n)[:, None] & (j < d)[None, :])
        dz = P * less_mean(dP, P, likeliest)
        address = (tl.program_id(1) * n + i[:, None]) * C + c
        tl.store(dlogits + address, dz, mask=(i < n)[:, None] & (c < C))
