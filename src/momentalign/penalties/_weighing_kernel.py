"""The weighted sum of `_weighing` and its count as one kernel, in Triton's dialect of Python."""
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from momentalign._triton import AVAILABLE

if AVAILABLE:
    import triton
    import triton.language as tl

    @triton.jit
    def weigh(
        total, in_force, step, first, second, third, of_first, of_second, of_third, initial, start,
        TERMS: tl.constexpr, COUNTS: tl.constexpr,
    ):  # fmt: skip
        """Add up to three terms at the weights in force, which are kept for the way back."""
        now = tl.load(step)
        weight = tl.where(now >= start, of_first, initial)
        tl.store(in_force, weight)
        value = weight * tl.load(first)
        if TERMS > 1:
            weight = tl.where(now >= start, of_second, initial)
            tl.store(in_force + 1, weight)
            value += weight * tl.load(second)
        if TERMS > 2:
            weight = tl.where(now >= start, of_third, initial)
            tl.store(in_force + 2, weight)
            value += weight * tl.load(third)
        tl.store(total, value)
        if COUNTS:
            tl.store(step, now + 1)
