"""Triton kernels of the fused ReLU and GroupNorm of `_fused_norm`.

Legend: N images, C channels, G groups of D channels, P pixels an image. A program holds some groups of one image, all
pixels, as a block (pixels, groups, channels): channels lie side by side in memory, and a few groups together fill the
lines in which memory is read.
"""
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from momentalign._triton import AVAILABLE

if AVAILABLE:
    import triton
    import triton.language as tl

    @triton.jit
    def forward(
        x, shift, y, weight, bias, means, scales, x_n, x_c, x_p, y_n, y_c, y_p, P, G, eps,
        D: tl.constexpr, POOL: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_D: tl.constexpr,
    ):  # fmt: skip
        n = tl.program_id(0).to(tl.int64)
        g = tl.program_id(1) * BLOCK_G + tl.arange(0, BLOCK_G)[None, :, None]
        p, d = tl.arange(0, BLOCK_P)[:, None, None], tl.arange(0, BLOCK_D)[None, None, :]
        c, exists = g * D + d, (g < G) & (d < D)
        inside = (p < P) & exists
        value = tl.load(x + n * x_n + c * x_c + p * x_p, mask=inside, other=0.0).to(tl.float32)
        value += tl.load(shift + c, mask=exists, other=0.0)
        value = tl.where(inside & ~(value <= 0.0), value, 0.0)  # not a maximum: NaN stays
        mean = tl.sum(tl.sum(value, 2, keep_dims=True), 0, keep_dims=True) / (P * D)
        centred = tl.where(inside, value - mean, 0.0)
        variance = tl.sum(tl.sum(centred * centred, 2, keep_dims=True), 0, keep_dims=True) / (P * D)
        scale = 1.0 / tl.sqrt(variance + eps)
        w = tl.load(weight + c, mask=exists, other=0.0)
        b = tl.load(bias + c, mask=exists, other=0.0)
        if POOL:
            tl.store(y + n * y_n + c * y_c, tl.sum(centred, 0, keep_dims=True) / P * scale * w + b, mask=exists)
        else:
            tl.store(y + n * y_n + c * y_c + p * y_p, centred * scale * w + b, mask=inside)
        tl.store(means + n * G + g, mean, mask=g < G)
        tl.store(scales + n * G + g, scale, mask=g < G)

    @triton.jit
    def backward(
        x, shift, dy, dx, weight, means, scales, dshift, dweight, dbias,
        x_n, x_c, x_p, dy_n, dy_c, dy_p, dx_n, dx_c, dx_p, P, G,
        D: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_D: tl.constexpr,
    ):  # fmt: skip
        n = tl.program_id(0).to(tl.int64)
        g = tl.program_id(1) * BLOCK_G + tl.arange(0, BLOCK_G)[None, :, None]
        p, d = tl.arange(0, BLOCK_P)[:, None, None], tl.arange(0, BLOCK_D)[None, None, :]
        c, exists = g * D + d, (g < G) & (d < D)
        inside = (p < P) & exists
        value = tl.load(x + n * x_n + c * x_c + p * x_p, mask=inside, other=0.0).to(tl.float32)
        value += tl.load(shift + c, mask=exists, other=0.0)
        gradient = tl.load(dy + n * dy_n + c * dy_c + p * dy_p, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(means + n * G + g, mask=g < G, other=0.0)
        scale = tl.load(scales + n * G + g, mask=g < G, other=0.0)
        w = tl.load(weight + c, mask=exists, other=0.0)
        normed = tl.where(inside, (tl.where(value <= 0.0, 0.0, value) - mean) * scale, 0.0)
        weighted = gradient * w
        along = tl.sum(tl.sum(weighted * normed, 2, keep_dims=True), 0, keep_dims=True) / (P * D)
        middle = tl.sum(tl.sum(weighted, 2, keep_dims=True), 0, keep_dims=True) / (P * D)
        result = tl.where(inside & ~(value <= 0.0), (weighted - middle - normed * along) * scale, 0.0)
        tl.store(dx + n * dx_n + c * dx_c + p * dx_p, result, mask=inside)
        address = n * G * D + c
        tl.store(dshift + address, tl.sum(result, 0, keep_dims=True), mask=exists)
        tl.store(dweight + address, tl.sum(gradient * normed, 0, keep_dims=True), mask=exists)
        tl.store(dbias + address, tl.sum(gradient, 0, keep_dims=True), mask=exists)
