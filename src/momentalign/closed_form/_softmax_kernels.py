"""The spreads of `_softmax_spreads` and their gradients as three kernels, in Triton's dialect of Python.

The formulas, and the legend, are those of `_softmax_spreads`; F' there is F here, and its transpose is FT. Of a tile of
pairs everything stays in registers: only inner products of features come in, and their gradient goes out.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:  # PyTorch without CUDA comes without it
    AVAILABLE = False
else:
    AVAILABLE = True

if AVAILABLE:

    @triton.jit
    def rows(
        logits, targets, domains, R, G, mass, top, share, n, C, z_n, z_c,
        BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr, BLOCK_C: tl.constexpr,
    ):  # fmt: skip
        """What a row has of its own: R, G, mass, likeliest class, and its share of its domain's mean."""
        i, c = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I), tl.arange(0, BLOCK_C)[None, :]
        here = i < n
        inside = here[:, None] & (c < C)
        z = tl.load(logits + i[:, None] * z_n + c * z_c, mask=inside, other=0.0)
        z = tl.where(c < C, z, float("-inf"))
        likeliest = c == tl.argmax(z, 1)[:, None]
        powers = tl.exp(z - tl.max(z, 1)[:, None])
        P = powers / tl.sum(powers, 1)[:, None]
        others = tl.where(likeliest, 0.0, P)
        a = tl.sum(others, 1)
        r = tl.where(likeliest, -a[:, None], others)
        right = c == tl.load(targets + i, mask=here, other=0)[:, None]
        g = tl.where(right, tl.where(likeliest, r, P - 1.0), P)
        tl.store(R + i[:, None] * C + c, r, mask=inside)
        tl.store(G + i[:, None] * C + c, g, mask=inside)
        tl.store(mass + i, a, mask=here)
        tl.store(top + i, tl.argmax(z, 1), mask=here)
        own = tl.load(domains + i, mask=here, other=0)
        count = tl.zeros([BLOCK_I], tl.float32)
        for start in range(0, n, BLOCK_J):
            j = start + tl.arange(0, BLOCK_J)
            other = tl.load(domains + j, mask=j < n, other=0)
            count += tl.sum(((own[:, None] == other[None, :]) & (j < n)[None, :]).to(tl.float32), 1)
        tl.store(share + i, 1.0 / tl.maximum(count, 1.0), mask=here)

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
    def spreads(
        S, R, G, mass, top, domains, share, values, n, C,
        BIAS: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr, BLOCK_C: tl.constexpr,
    ):  # fmt: skip
        """A tile's part of both spreads."""
        i, c = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I), tl.arange(0, BLOCK_C)[None, :]
        j = tl.program_id(1) * BLOCK_J + tl.arange(0, BLOCK_J)
        in_i, in_j = (i < n)[:, None] & (c < C), (j < n)[:, None] & (c < C)
        R_i = tl.load(R + i[:, None] * C + c, mask=in_i, other=0.0)
        R_j = tl.load(R + j[:, None] * C + c, mask=in_j, other=0.0)
        G_i = tl.load(G + i[:, None] * C + c, mask=in_i, other=0.0)
        G_j = tl.load(G + j[:, None] * C + c, mask=in_j, other=0.0)
        top_i, top_j = tl.load(top + i, mask=i < n, other=0), tl.load(top + j, mask=j < n, other=0)
        a_j = tl.load(mass + j, mask=j < n, other=0.0)[None, :]
        W = pair_weights(i, j, domains, share, number_of_domains(share, n, BLOCK_J), n)
        s = tl.load(S + i[:, None] * n + j[None, :], mask=(i < n)[:, None] & (j < n)[None, :], other=0.0) + BIAS
        g = inner(R_i, (c == top_j[:, None]).to(tl.float32))
        h = inner((c == top_i[:, None]).to(tl.float32), R_j)
        rho = inner(R_i, R_j)
        t = rho + 1.0 + 2.0 * (top_i[:, None] == top_j[None, :]).to(tl.float32) + 4.0 * g
        F = rho * t - 2.0 * inner(R_i, R_j * R_j) + 2.0 * g * (2.0 * a_j + h)
        place = values + 2 * (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1))
        tl.store(place, tl.sum(tl.sum(W * s * inner(G_i, G_j), 1), 0))
        tl.store(place + 1, tl.sum(tl.sum(W * s * s * F, 1), 0))

    @triton.jit
    def slopes(
        S, R, G, mass, top, domains, share, gradient, hessian, dS, dlogits, n, C,
        BIAS: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr, BLOCK_C: tl.constexpr,
    ):  # fmt: skip
        """Gradients with respect to S, made symmetric, and to the logits of some rows."""
        i, c = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I), tl.arange(0, BLOCK_C)[None, :]
        in_i = (i < n)[:, None] & (c < C)
        R_i = tl.load(R + i[:, None] * C + c, mask=in_i, other=0.0)
        G_i = tl.load(G + i[:, None] * C + c, mask=in_i, other=0.0)
        top_i = tl.load(top + i, mask=i < n, other=0)
        a_i = tl.load(mass + i, mask=i < n, other=0.0)[:, None]
        likeliest = c == top_i[:, None]
        hot_i = likeliest.to(tl.float32)
        number = number_of_domains(share, n, BLOCK_J)
        d_gradient, d_hessian = tl.load(gradient), tl.load(hessian)
        dR = tl.zeros([BLOCK_I, BLOCK_C], tl.float32)
        through_half = tl.zeros([BLOCK_I, BLOCK_C], tl.float32)
        d_mass = tl.zeros([BLOCK_I], tl.float32)
        for start in range(0, n, BLOCK_J):
            j = start + tl.arange(0, BLOCK_J)
            in_j, pair = (j < n)[:, None] & (c < C), (i < n)[:, None] & (j < n)[None, :]
            R_j = tl.load(R + j[:, None] * C + c, mask=in_j, other=0.0)
            G_j = tl.load(G + j[:, None] * C + c, mask=in_j, other=0.0)
            top_j = tl.load(top + j, mask=j < n, other=0)
            a_j = tl.load(mass + j, mask=j < n, other=0.0)[None, :]
            hot_j = (c == top_j[:, None]).to(tl.float32)
            W = pair_weights(i, j, domains, share, number, n)
            s = tl.load(S + i[:, None] * n + j[None, :], mask=pair, other=0.0) + BIAS
            g, h, rho = inner(R_i, hot_j), inner(hot_i, R_j), inner(R_i, R_j)
            t = rho + 1.0 + 2.0 * (top_i[:, None] == top_j[None, :]).to(tl.float32)
            F = rho * (t + 4.0 * g) - 2.0 * inner(R_i, R_j * R_j) + 2.0 * g * (2.0 * a_j + h)
            FT = rho * (t + 4.0 * h) - 2.0 * inner(R_i * R_i, R_j) + 2.0 * h * (2.0 * a_i + g)
            first = W * s
            found = 2.0 * W * inner(G_i, G_j) * d_gradient + 2.0 * first * (F + FT) * d_hessian
            tl.store(dS + i[:, None] * n + j[None, :], found, mask=pair)
            B = first * s * d_hessian
            dR += tl.dot(2.0 * d_gradient * first, G_j, input_precision="ieee")
            dR += tl.dot(2.0 * B * (t + rho + 2.0 * (g + h)), R_j, input_precision="ieee")
            dR += tl.dot(-2.0 * B, R_j * R_j, input_precision="ieee")
            dR += tl.dot(4.0 * B * (rho + a_j + h), hot_j, input_precision="ieee")
            through_half += tl.dot(B, R_j, input_precision="ieee")
            d_mass += 4.0 * tl.sum(B * h, 1)
        dR -= 4.0 * R_i * through_half
        # Of R and the mass to P, as in `_shifted_softmax.py`: zero at the likeliest class, so that nothing cancels.
        dP = dR - tl.sum(tl.where(likeliest, dR, 0.0), 1)[:, None] + d_mass[:, None]
        dP = tl.where(likeliest, 0.0, dP)
        P = tl.where(likeliest, 1.0 - a_i, R_i)
        tl.store(dlogits + i[:, None] * C + c, P * (dP - tl.sum(P * dP, 1)[:, None]), mask=in_i)
