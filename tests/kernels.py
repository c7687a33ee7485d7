"""Where Triton's kernels can be tested: on a CUDA device, or anywhere with Triton and TRITON_INTERPRET=1."""

import os
from typing import Any

import pytest
import torch

from momentalign._triton import AVAILABLE

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
# Problems of many tiles, which the interpreter takes minutes for; smaller ones of two or three tiles run in it.
large = pytest.mark.skipif(INTERPRETED, reason="takes minutes in Triton's interpreter: needs a CUDA device")

if AVAILABLE and INTERPRETED:
    import triton
    import triton.language as tl
    from triton.runtime import interpreter

    @triton.jit
    def _write(out):  # type: ignore[no-untyped-def]
        tl.store(out, 1.0)

    _prepared: set[str] = set()

    def _call(function: Any, *args: Any, **options: Any) -> Any:
        if function.fn.__module__ not in _prepared:
            _prepared.add(function.fn.__module__)
            interpreter._patch_lang(function.fn)
        return function.rewrite()(*args, **options)

    # A function that a kernel calls prepares Triton's language anew at each call, which takes half of the time; once
    # for each module is enough.
    if hasattr(interpreter.InterpretedFunction, "rewrite"):
        interpreter.InterpretedFunction.__call__ = _call


def _can_run() -> bool:
    """Whether kernels can run here; in Triton 3.0 the interpreter neither reads nor writes arrays of NumPy 2."""
    if not AVAILABLE or not INTERPRETED:
        return AVAILABLE and torch.cuda.is_available()
    out = torch.zeros(1)
    _write[(1,)](out)
    return bool(out)


needs_device = pytest.mark.skipif(not _can_run(), reason="needs a CUDA device, or an interpreter of Triton that works")
