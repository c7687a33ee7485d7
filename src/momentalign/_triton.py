"""Whether there is Triton, which comes with PyTorch for CUDA."""

from importlib.util import find_spec

AVAILABLE = find_spec("triton") is not None
