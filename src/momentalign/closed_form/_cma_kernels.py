r"""Triton kernels of CMA, with and without momentum, and their gradients; `_cma_host.py` calls them.

Without momentum the legend is that of `_cma.py`. W and S are symmetric, so a matrix that is summed against them counts
by its symmetric part alone, and F is replaced by the cheaper :math:`\rho t - 2T + 2 g\,(2\pi_j + g^\top)` with
:math:`g = R_i[m_j]` and :math:`t = \rho + 1 + 2[m_i = m_j] + 4g`; FT is its transpose. A tile of pairs is computed
once: both spreads are linear in their incoming gradients, so the forward pass stores a plane of gradients for each.

With momentum D = d plus one with a bias, whose column of ones comes last. A Hessian is q blocks of D x D, p_a p_b x xᵀ
for the pairs of classes a < b, row by row.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from momentalign._triton import AVAILABLE

if AVAILABLE:
    import triton
    import triton.language as tl

    @triton.jit
    def block(matrix, i, k, n, d):
        """Rows i of a matrix (n, d) in the columns k; zero outside."""
        return tl.load(matrix + i[:, None] * d + k, mask=(i < n)[:, None] & (k < d), other=0.0)

    @triton.jit
    def store_shares(i, domains, share, n, BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr):
        """Store the shares 1/n_e of the rows i."""
        own = tl.load(domains + i, mask=i < n, other=0)
        count = tl.zeros([BLOCK_I], tl.float32)
        for start in range(0, n, BLOCK_J):
            j = start + tl.arange(0, BLOCK_J)
            other = tl.load(domains + j, mask=j < n, other=0)
            count += tl.sum(((own[:, None] == other[None, :]) & (j < n)[None, :]).to(tl.float32), 1)
        tl.store(share + i, 1.0 / tl.maximum(count, 1.0), mask=i < n)

    @triton.jit
    def residuals(logits, targets, i, c, n, C, z_n, z_c):
        """R, G, mass and likeliest class of the rows i; zero in columns outside."""
        here = i < n
        z = tl.load(logits + i[:, None] * z_n + c * z_c, mask=here[:, None] & (c < C), other=0.0)
        z = tl.where(c < C, z, float("-inf"))
        top = tl.argmax(z, 1)
        likeliest = c == top[:, None]
        powers = tl.exp(z - tl.max(z, 1)[:, None])
        P = powers / tl.sum(powers, 1)[:, None]
        others = tl.where(likeliest, 0.0, P)
        mass = tl.sum(others, 1)
        R = tl.where(likeliest, -mass[:, None], others)
        right = c == tl.load(targets + i, mask=here, other=0)[:, None]
        G = tl.where(right, tl.where(likeliest, R, P - 1.0), P)
        return R, G, mass, top

    @triton.jit
    def rows(
        logits, targets, domains, R, G, mass, top, share, n, C, z_n, z_c,
        BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr, BLOCK_C: tl.constexpr,
    ):  # fmt: skip
        """R, G, mass, likeliest class and share of each row."""
        i, c = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I), tl.arange(0, BLOCK_C)[None, :]
        inside = (i < n)[:, None] & (c < C)
        r, g, a, likeliest = residuals(logits, targets, i, c, n, C, z_n, z_c)
        tl.store(R + i[:, None] * C + c, r, mask=inside)
        tl.store(G + i[:, None] * C + c, g, mask=inside)
        tl.store(mass + i, a, mask=i < n)
        tl.store(top + i, likeliest, mask=i < n)
        store_shares(i, domains, share, n, BLOCK_I, BLOCK_J)

    @triton.jit
    def number_of_domains(share, n, BLOCK: tl.constexpr):
        """The sum of all shares, rounded."""
        total = tl.zeros([BLOCK], tl.float32)
        for start in range(0, n, BLOCK):
            i = start + tl.arange(0, BLOCK)
            total += tl.load(share + i, mask=i < n, other=0.0)
        return tl.floor(tl.sum(total, 0) + 0.5)

    @triton.jit
    def pair_weights(i, j, domains, share, number, n):
        """W for the rows i and the columns j; zero outside."""
        own, other = tl.load(domains + i, mask=i < n, other=0), tl.load(domains + j, mask=j < n, other=0)
        u, v = tl.load(share + i, mask=i < n, other=0.0), tl.load(share + j, mask=j < n, other=0.0)
        together = (own[:, None] == other[None, :]).to(tl.float32)
        return (u[:, None] / number) * (v[None, :] / number) * (together * number - 1.0)

    @triton.jit
    def inner(left, right):
        """Inner products between the rows of two matrices, in full precision."""
        return tl.dot(left, tl.trans(right), input_precision="ieee")

    @triton.jit
    def pairs(
        X, R, G, mass, top, domains, share, values, dS, dR, dmass, n, d, C, BIAS: tl.constexpr,
        BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_D: tl.constexpr,
    ):  # fmt: skip
        """Contribution of a tile to both spreads and to their gradients: a plane of dS and dR each."""
        tile, tiles = tl.program_id(1), tl.num_programs(1)
        i, c = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I), tl.arange(0, BLOCK_C)[None, :]
        j = tile * BLOCK_J + tl.arange(0, BLOCK_J)
        in_i, both = (i < n)[:, None] & (c < C), (i < n)[:, None] & (j < n)[None, :]
        R_i, R_j, G_i, G_j = block(R, i, c, n, C), block(R, j, c, n, C), block(G, i, c, n, C), block(G, j, c, n, C)
        top_i, top_j = tl.load(top + i, mask=i < n, other=0), tl.load(top + j, mask=j < n, other=0)
        a_i = tl.load(mass + i, mask=i < n, other=0.0)[:, None]
        a_j = tl.load(mass + j, mask=j < n, other=0.0)[None, :]
        W = pair_weights(i, j, domains, share, number_of_domains(share, n, 128), n)
        s = tl.zeros([BLOCK_I, BLOCK_J], tl.float32) + BIAS
        for start in range(0, d, BLOCK_D):
            k = start + tl.arange(0, BLOCK_D)[None, :]
            s += inner(block(X, i, k, n, d), block(X, j, k, n, d))
        hot_j = (c == top_j[:, None]).to(tl.float32)
        g, h, rho = inner(R_i, hot_j), inner((c == top_i[:, None]).to(tl.float32), R_j), inner(R_i, R_j)
        t = rho + 1.0 + 2.0 * (top_i[:, None] == top_j[None, :]).to(tl.float32)
        F = rho * (t + 4.0 * g) - 2.0 * inner(R_i, R_j * R_j) + 2.0 * g * (2.0 * a_j + h)
        FT = rho * (t + 4.0 * h) - 2.0 * inner(R_i * R_i, R_j) + 2.0 * h * (2.0 * a_i + g)
        GG = inner(G_i, G_j)
        first = W * s
        B = first * s
        address = values + tl.program_id(0) * tiles + tile
        tl.store(address, tl.sum(tl.sum(first * GG, 1), 0))
        tl.store(address + tl.num_programs(0) * tiles, tl.sum(tl.sum(B * F, 1), 0))
        address = dS + i[:, None] * n + j[None, :]
        tl.store(address, 2.0 * W * GG, mask=both)
        tl.store(address + n * n, 2.0 * first * (F + FT), mask=both)
        dR_i = tl.dot(2.0 * B * (t + rho + 2.0 * (g + h)), R_j, input_precision="ieee")
        dR_i += tl.dot(-2.0 * B, R_j * R_j, input_precision="ieee")
        dR_i += tl.dot(4.0 * B * (rho + a_j + h), hot_j, input_precision="ieee")
        dR_i -= 4.0 * R_i * tl.dot(B, R_j, input_precision="ieee")
        address = dR + tile * 2 * n * C + i[:, None] * C + c
        tl.store(address, tl.dot(2.0 * first, G_j, input_precision="ieee"), mask=in_i)
        tl.store(address + n * C, dR_i, mask=in_i)
        tl.store(dmass + tile * n + i, 4.0 * tl.sum(B * h, 1), mask=i < n)

    @triton.jit
    def finish(
        X, R, mass, top, gradient, hessian, dS, dR, dmass, dX, dlogits, n, d, C, parts,
        BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_D: tl.constexpr,
    ):  # fmt: skip
        """Weigh the two planes: the last programs for dlogits of some rows, the others for some columns of dX."""
        span, spans = tl.program_id(1), tl.num_programs(1) - 1
        i = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I)
        first, second = tl.load(gradient), tl.load(hessian)
        if span < spans:
            k = span * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
            dX_i = tl.zeros([BLOCK_I, BLOCK_D], tl.float32)
            for start in range(0, n, BLOCK_J):
                j = start + tl.arange(0, BLOCK_J)
                dS_ij = first * block(dS, i, j[None, :], n, n) + second * block(dS + n * n, i, j[None, :], n, n)
                dX_i += tl.dot(dS_ij, block(X, j, k, n, d), input_precision="ieee")
            tl.store(dX + i[:, None] * d + k, dX_i, mask=(i < n)[:, None] & (k < d))
        else:
            c = tl.arange(0, BLOCK_C)[None, :]
            total = tl.zeros([BLOCK_I, BLOCK_C], tl.float32)
            total_mass = tl.zeros([BLOCK_I], tl.float32)
            for part in range(parts):
                plane = dR + part * 2 * n * C
                total += first * block(plane, i, c, n, C) + second * block(plane + n * C, i, c, n, C)
                total_mass += second * tl.load(dmass + part * n + i, mask=i < n, other=0.0)
            likeliest = c == tl.load(top + i, mask=i < n, other=0)[:, None]
            # From R and the mass to P: zero at the likeliest class, so that nothing cancels.
            dP = total - tl.sum(tl.where(likeliest, total, 0.0), 1)[:, None] + total_mass[:, None]
            dP = tl.where(likeliest, 0.0, dP)
            a = tl.load(mass + i, mask=i < n, other=0.0)[:, None]
            P = tl.where(likeliest, 1.0 - a, block(R, i, c, n, C))
            dz = P * (dP - tl.sum(P * dP, 1)[:, None])
            tl.store(dlogits + i[:, None] * C + c, dz, mask=(i < n)[:, None] & (c < C))

    @triton.jit
    def columns(X, i, j, n, d, BIAS: tl.constexpr):
        """Features of the rows i in the columns j, one in the column of the bias and zero outside."""
        x = tl.load(X + i[:, None] * d + j[None, :], mask=(i < n)[:, None] & (j < d)[None, :], other=0.0)
        if BIAS:
            x = tl.where(j[None, :] == d, 1.0, x)
        return x

    @triton.jit
    def classes_of(t, C: tl.constexpr):
        """Classes a < b of a Hessian's block t."""
        a = t * 0
        for row in tl.static_range(1, C):
            a = tl.where(t >= row * (2 * C - row - 1) // 2, row, a)
        return a, t - a * (2 * C - a - 1) // 2 + a + 1

    @triton.jit
    def pick(values, c, a):
        """Column a of some rows."""
        return tl.sum(tl.where(c == a, values, 0.0), 1)

    @triton.jit
    def probabilities(R, mass, top, c):
        """P of some rows, and a mask of their likeliest classes."""
        likeliest = c == top[:, None]
        return tl.where(likeliest, 1.0 - mass[:, None], R), likeliest

    @triton.jit
    def align(
        X, logits, targets, domains, labels, past, sums, deviations, n, d, K, z_n, z_c, decay, t, m, j,
        GRADIENT: tl.constexpr, C: tl.constexpr, BIAS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
        BLOCK_D: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_C: tl.constexpr,
    ):  # fmt: skip
        """Sums and deviations in rows m and columns j of the gradients or of block t; their spread, and the counts."""
        BLOCKS: tl.constexpr = 1 if GRADIENT else C * (C - 1) // 2
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
                        P, _ = probabilities(R, mass, top, c)
                        left = (pick(P, c, a) * pick(P, c, b))[:, None] * columns(X, i, m, n, d, BIAS)
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
        second_deviations, weights, values, n, d, K, z_n, z_c, decay,
        C: tl.constexpr, BIAS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_K: tl.constexpr,
        BLOCK_C: tl.constexpr,
    ):  # fmt: skip
        """A tile of the Hessians, or in the first programs of the gradients, and its part of their squares."""
        tile, number, tiles = tl.program_id(0), tl.program_id(1) - 1, tl.num_programs(0)
        parts = (tl.num_programs(1) - 1) * tiles
        j, k = tile * BLOCK_D + tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_K)
        if number < 0:
            part, counts = align(
                X, logits, targets, domains, labels, past_first, first, first_deviations, n, d, K, z_n, z_c, decay,
                0, tl.arange(0, BLOCK_C), j, True, C, BIAS, BLOCK_C, BLOCK_N, BLOCK_D, BLOCK_K, BLOCK_C,
            )  # fmt: skip
            tl.store(values + tile, part)
            if tile == 0:
                tl.store(weights + k, tl.where(counts > 0, 1.0 / tl.maximum(counts, 1.0), 0.0), mask=k < K)
        else:
            m = number % tiles * BLOCK_D + tl.arange(0, BLOCK_D)
            part, _ = align(
                X, logits, targets, domains, labels, past_second, second, second_deviations, n, d, K, z_n, z_c, decay,
                number // tiles, m, j, False, C, BIAS, BLOCK_D, BLOCK_N, BLOCK_D, BLOCK_K, BLOCK_C,
            )  # fmt: skip
            index = number * tiles + tile
            tl.store(values + parts + index, part)
            if index >= tiles:  # gradients have fewer parts
                tl.store(values + index, 0.0)

    @triton.jit
    def slopes(
        X, logits, targets, domains, labels, first_deviations, second_deviations, weights, gradient, hessian, dX,
        dlogits, n, d, K, z_n, z_c,
        C: tl.constexpr, BIAS: tl.constexpr, SPAN: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr,
        BLOCK_D: tl.constexpr, BLOCK_C: tl.constexpr,
    ):  # fmt: skip
        """Gradients of some rows: of the logits through a span of columns, and of X in those columns."""
        BLOCKS: tl.constexpr = C * (C - 1) // 2
        D, c = d + BIAS, tl.arange(0, BLOCK_C)[None, :]
        i = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I)
        R, G, mass, top = residuals(logits, targets, i, c, n, C, z_n, z_c)
        P, likeliest = probabilities(R, mass, top, c)
        # Twice from the squares.
        by_gradient, by_hessian = 2.0 * tl.load(gradient), 2.0 * tl.load(hessian)
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
                        P_a, P_b, xy = pick(P, c, a), pick(P, c, b), tl.sum(x * y, 1)
                        dX_i += 2.0 * (P_a * P_b)[:, None] * y
                        dP += tl.where(c == a, (xy * P_b)[:, None], 0.0) + tl.where(c == b, (xy * P_a)[:, None], 0.0)
            tl.store(dX + i[:, None] * d + j[None, :], dX_i, mask=(i < n)[:, None] & (j < d)[None, :])
        dP -= tl.sum(tl.where(likeliest, dP, 0.0), 1)[:, None]  # nothing cancels close to one-hot
        dz = P * (dP - tl.sum(P * dP, 1)[:, None])
        address = (tl.program_id(1) * n + i[:, None]) * C + c
        tl.store(dlogits + address, dz, mask=(i < n)[:, None] & (c < C))
