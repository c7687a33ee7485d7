"""Triton kernels of `_softmax_spreads` and their gradients.

Formulas and legend are those of `_softmax_spreads`; FT is the transpose of F. A tile of pairs is computed once: both
spreads are linear in their incoming gradients, so the forward pass stores a plane of gradients for each, and the
backward pass weighs and adds them.
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
    def shares(domains, share, n, BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr):
        """Shares of some rows."""
        i = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I)
        store_shares(i, domains, share, n, BLOCK_I, BLOCK_J)

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
        X, R, G, mass, top, domains, share, values, dS, dR, dmass, n, d, C, by_first, by_second, BIAS: tl.constexpr,
        BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_D: tl.constexpr,
    ):  # fmt: skip
        """Contribution of a tile to both spreads, divided, and to their gradients: a plane of dS and dR each."""
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
        first, second = W * s / by_first, W * s / by_second
        B = second * s
        address = values + tl.program_id(0) * tiles + tile
        tl.store(address, tl.sum(tl.sum(first * GG, 1), 0))
        tl.store(address + tl.num_programs(0) * tiles, tl.sum(tl.sum(B * F, 1), 0))
        address = dS + i[:, None] * n + j[None, :]
        tl.store(address, 2.0 * W / by_first * GG, mask=both)
        tl.store(address + n * n, 2.0 * second * (F + FT), mask=both)
        through_R = tl.dot(2.0 * B * (t + rho + 2.0 * (g + h)), R_j, input_precision="ieee")
        through_R += tl.dot(-2.0 * B, R_j * R_j, input_precision="ieee")
        through_R += tl.dot(4.0 * B * (rho + a_j + h), hot_j, input_precision="ieee")
        through_R -= 4.0 * R_i * tl.dot(B, R_j, input_precision="ieee")
        address = dR + tile * 2 * n * C + i[:, None] * C + c
        tl.store(address, tl.dot(2.0 * first, G_j, input_precision="ieee"), mask=in_i)
        tl.store(address + n * C, through_R, mask=in_i)
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
