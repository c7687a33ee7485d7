"""Where Triton's kernels can be tested: on a CUDA device, or anywhere with Triton and TRITON_INTERPRET=1."""

import os

import pytest
import torch

from momentalign._triton import AVAILABLE

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
needs_device = pytest.mark.skipif(
    not (AVAILABLE and (INTERPRETED or torch.cuda.is_available())), reason="needs a CUDA device with Triton"
)
