"""The kernels of the fused ReLU and GroupNorm, in Triton's dialect of Python; see `_fused_norm`.

Legend: N images, C channels, G groups of D channels, P pixels an image; a program holds one group of one image.
"""
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:  # PyTorch without CUDA comes without it
    AVAILABLE = False
else:
    AVAILABLE = True

if AVAILABLE:

    @triton.jit
    def forward(
        x, y, weight, bias, means, scales, x_n, x_c, x_p, y_n, y_c, y_p, P, D, G, eps,
        BLOCK_P: tl.constexpr, BLOCK_D: tl.constexpr,
    ):  # fmt: skip
        n, g = tl.program_id(0).to(tl.int64), tl.program_id(1)
        p, d = tl.arange(0, BLOCK_P)[:, None], tl.arange(0, BLOCK_D)[None, :]
        inside = (p < P) & (d < D)
        c = g * D + d
        value = tl.load(x + n * x_n + c * x_c + p * x_p, mask=inside, other=0.0).to(tl.float32)
        value = tl.where(value <= 0.0, 0.0, value)  # not a maximum: NaN stays
        mean = tl.sum(tl.sum(value, 0), 0) / (P * D)
        centred = tl.where(inside, value - mean, 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(tl.sum(centred * centred, 0), 0) / (P * D) + eps)
        w = tl.load(weight + c, mask=d < D, other=0.0)
        b = tl.load(bias + c, mask=d < D, other=0.0)
        tl.store(y + n * y_n + c * y_c + p * y_p, centred * scale * w + b, mask=inside)
        tl.store(means + n * G + g, mean)
        tl.store(scales + n * G + g, scale)

    @triton.jit
    def backward(
        x, dy, dx, weight, means, scales, dw, db, x_n, x_c, x_p, dy_n, dy_c, dy_p, dx_n, dx_c, dx_p, P, D, G,
        BLOCK_P: tl.constexpr, BLOCK_D: tl.constexpr,
    ):  # fmt: skip
        n, g = tl.program_id(0).to(tl.int64), tl.program_id(1)
        p, d = tl.arange(0, BLOCK_P)[:, None], tl.arange(0, BLOCK_D)[None, :]
        inside = (p < P) & (d < D)
        c = g * D + d
        value = tl.load(x + n * x_n + c * x_c + p * x_p, mask=inside, other=0.0).to(tl.float32)
        gradient = tl.load(dy + n * dy_n + c * dy_c + p * dy_p, mask=inside, other=0.0).to(tl.float32)
        mean, scale = tl.load(means + n * G + g), tl.load(scales + n * G + g)
        w = tl.load(weight + c, mask=d < D, other=0.0)
        normed = tl.where(inside, (tl.where(value <= 0.0, 0.0, value) - mean) * scale, 0.0)
        weighted = gradient * w
        along = tl.sum(tl.sum(weighted * normed, 0), 0) / (P * D)
        middle = tl.sum(tl.sum(weighted, 0), 0) / (P * D)
        found = tl.where(value <= 0.0, 0.0, (weighted - middle - normed * along) * scale)
        tl.store(dx + n * dx_n + c * dx_c + p * dx_p, found, mask=inside)
        line = tl.arange(0, BLOCK_D)
        place = n * G * D + g * D + line
        tl.store(dw + place, tl.sum(gradient * normed, 0), mask=line < D)
        tl.store(db + place, tl.sum(gradient, 0), mask=line < D)
