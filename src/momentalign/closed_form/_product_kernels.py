"""Triton kernels of `_product_spreads` and their gradients.

The first kernel, `rows`, is that of `_softmax_kernels`. Legend, besides that of `_product_spreads`, where G here is R
there: m_ij = [e_i = e_j], own = m share with share = 1/n_e; a tilde subtracts from a row its mean under P. T = q̃ with
q = (S ∘ own) G, and V = P ∘ T; E = (W ∘ S) G; D = the tilde of (W ∘ S) V, and Q = P ∘ D. The gradient with respect to
q is Q, and with respect to V it is (W ∘ S) V, both up to a factor of two and the incoming one.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from momentalign._triton import AVAILABLE

if AVAILABLE:
    import triton
    import triton.language as tl

    from momentalign.closed_form._softmax_kernels import block, inner, number_of_domains, pair_weights, rows

    __all__ = ["products", "rows", "slopes", "spreads"]

    @triton.jit
    def probabilities(R, mass, top, i, c, n, C):
        """P of the rows i, and a mask of their likeliest classes."""
        likeliest = c == tl.load(top + i, mask=i < n, other=0)[:, None]
        a = tl.load(mass + i, mask=i < n, other=0.0)[:, None]
        return tl.where(likeliest, 1.0 - a, block(R, i, c, n, C)), likeliest

    @triton.jit
    def less_mean(values, P, likeliest):
        """Rows less their means under P, from differences to the likeliest class: nothing cancels close to one-hot."""
        differences = values - tl.sum(tl.where(likeliest, values, 0.0), 1)[:, None]
        return differences - tl.sum(P * differences, 1)[:, None]

    @triton.jit
    def inner_products(S, i, j, n, BIAS: tl.constexpr):
        """S for the rows i and the columns j, with the bias; BIAS outside."""
        return tl.load(S + i[:, None] * n + j[None, :], mask=(i < n)[:, None] & (j < n)[None, :], other=0.0) + BIAS

    @triton.jit
    def own_weights(i, j, domains, share, n):
        """Own for the rows i and the columns j; zero in columns outside."""
        own, other = tl.load(domains + i, mask=i < n, other=0), tl.load(domains + j, mask=j < n, other=0)
        return tl.where(own[:, None] == other[None, :], tl.load(share + j, mask=j < n, other=0.0)[None, :], 0.0)

    @triton.jit
    def products(
        S, R, G, mass, top, domains, share, T, V, n, C,
        BIAS: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr, BLOCK_C: tl.constexpr,
    ):  # fmt: skip
        """T and V of some rows."""
        i, c = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I), tl.arange(0, BLOCK_C)[None, :]
        q = tl.zeros([BLOCK_I, BLOCK_C], tl.float32)
        for start in range(0, n, BLOCK_J):
            j = start + tl.arange(0, BLOCK_J)
            inside = inner_products(S, i, j, n, BIAS) * own_weights(i, j, domains, share, n)
            q += tl.dot(inside, block(G, j, c, n, C), input_precision="ieee")
        P, likeliest = probabilities(R, mass, top, i, c, n, C)
        t = less_mean(q, P, likeliest)
        address, mask = i[:, None] * C + c, (i < n)[:, None] & (c < C)
        tl.store(T + address, t, mask=mask)
        tl.store(V + address, P * t, mask=mask)

    @triton.jit
    def spreads(
        S, R, G, mass, top, domains, share, V, E, D, Q, values, n, C,
        BIAS: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr, BLOCK_C: tl.constexpr,
    ):  # fmt: skip
        """E, D and Q of some rows, and their contribution to both spreads."""
        i, c = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I), tl.arange(0, BLOCK_C)[None, :]
        number = number_of_domains(share, n, 128)
        of_G = tl.zeros([BLOCK_I, BLOCK_C], tl.float32)
        of_V = tl.zeros([BLOCK_I, BLOCK_C], tl.float32)
        for start in range(0, n, BLOCK_J):
            j = start + tl.arange(0, BLOCK_J)
            between = inner_products(S, i, j, n, BIAS) * pair_weights(i, j, domains, share, number, n)
            of_G += tl.dot(between, block(G, j, c, n, C), input_precision="ieee")
            of_V += tl.dot(between, block(V, j, c, n, C), input_precision="ieee")
        # Rows outside are zero in G and V.
        address = values + tl.program_id(0)
        tl.store(address, tl.sum(tl.sum(block(G, i, c, n, C) * of_G, 1), 0))
        tl.store(address + tl.num_programs(0), tl.sum(tl.sum(block(V, i, c, n, C) * of_V, 1), 0))
        P, likeliest = probabilities(R, mass, top, i, c, n, C)
        d = less_mean(of_V, P, likeliest)
        address, mask = i[:, None] * C + c, (i < n)[:, None] & (c < C)
        tl.store(E + address, of_G, mask=mask)
        tl.store(D + address, d, mask=mask)
        tl.store(Q + address, P * d, mask=mask)

    @triton.jit
    def slopes(
        S, R, G, mass, top, domains, share, T, V, E, D, Q, gradient, hessian, dS, dlogits, n, C,
        BIAS: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr, BLOCK_C: tl.constexpr,
    ):  # fmt: skip
        """Gradients with respect to S, made symmetric, and to the logits of some rows."""
        i, c = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I), tl.arange(0, BLOCK_C)[None, :]
        number = number_of_domains(share, n, 128)
        d_gradient, d_hessian = tl.load(gradient), tl.load(hessian)
        G_i, V_i, Q_i = block(G, i, c, n, C), block(V, i, c, n, C), block(Q, i, c, n, C)
        through_q = tl.zeros([BLOCK_I, BLOCK_C], tl.float32)
        for start in range(0, n, BLOCK_J):
            j = start + tl.arange(0, BLOCK_J)
            G_j, V_j, Q_j = block(G, j, c, n, C), block(V, j, c, n, C), block(Q, j, c, n, C)
            W, own = pair_weights(i, j, domains, share, number, n), own_weights(i, j, domains, share, n)
            dS_ij = W * (d_gradient * inner(G_i, G_j) + d_hessian * inner(V_i, V_j))
            dS_ij += d_hessian * own * (inner(Q_i, G_j) + inner(G_i, Q_j))
            tl.store(dS + i[:, None] * n + j[None, :], 2.0 * dS_ij, mask=(i < n)[:, None] & (j < n)[None, :])
            through_q += tl.dot(inner_products(S, i, j, n, BIAS) * own, Q_j, input_precision="ieee")
        dP = d_gradient * block(E, i, c, n, C)
        dP += d_hessian * (through_q + block(T, i, c, n, C) * block(D, i, c, n, C))
        P, likeliest = probabilities(R, mass, top, i, c, n, C)
        dz = P * less_mean(2.0 * dP, P, likeliest)
        tl.store(dlogits + i[:, None] * C + c, dz, mask=(i < n)[:, None] & (c < C))
