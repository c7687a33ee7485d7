"""Where Triton's kernels can be tested: on a CUDA device, or anywhere with Triton and TRITON_INTERPRET=1."""

import ctypes
import os
from typing import Any

import numpy as np
import pytest
import torch

from momentalign._triton import AVAILABLE

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
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

    def _memory(pointers: Any, mask: Any) -> tuple[Any, Any]:
        """The memory from the lowest to the highest pointer as an array, and the places of the pointers in it."""
        dtype, chosen = interpreter._get_np_dtype(pointers.get_element_ty()), pointers.data[mask.data]
        first, last = (int(chosen.min()), int(chosen.max())) if len(chosen) else (0, -dtype.itemsize)
        content = (ctypes.c_char * (last - first + dtype.itemsize)).from_address(first)
        return np.frombuffer(content, dtype), (chosen - np.uint64(first)).astype(int) // dtype.itemsize

    def _load(_: Any, pointers: Any, mask: Any, other: Any, *__: Any) -> Any:
        memory, places = _memory(pointers, mask)
        found = np.zeros(pointers.data.shape, memory.dtype)
        if other is not None:
            found[...] = other.data
        found[mask.data] = memory[places]
        return interpreter.TensorHandle(found, pointers.get_element_ty())

    def _store(_: Any, pointers: Any, value: Any, mask: Any, *__: Any) -> None:
        memory, places = _memory(pointers, mask)
        memory[places] = value.data[mask.data]

    def _ones(_: Any, of: Any) -> Any:
        return interpreter.TensorHandle(np.full(1, -1).astype(interpreter._get_np_dtype(of)), of.scalar)

    # Triton 3.0, which comes with PyTorch 2.4, neither reads nor writes memory where NumPy is version 2, and cannot
    # negate a mask.
    _out = torch.zeros(1)
    _write[(1,)](_out)
    if not _out:
        interpreter.InterpreterBuilder.create_masked_load = _load
        interpreter.InterpreterBuilder.create_masked_store = _store
        interpreter.InterpreterBuilder.get_int1_ty = lambda _: tl.int1
        interpreter.InterpreterBuilder.get_all_ones_value = _ones

needs_device = pytest.mark.skipif(
    not (AVAILABLE and (INTERPRETED or torch.cuda.is_available())),
    reason="needs a CUDA device, or Triton for its interpreter",
)
