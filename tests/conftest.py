"""Fixtures and markers that every test can use."""

import os
from collections.abc import Iterator

import pytest
import torch

# Triton reads this where a kernel is defined, so it has to be there before the package is imported.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# For processes with several threads: beside other tests a thread that waits for work should leave the core to them.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from momentalign._machine import cpu_bfloat16_works
from tests.browser import browser, chromium  # noqa: F401  (fixtures)

# Small tensors: a second thread costs more than it brings, most of all where tests run side by side.
torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow modules first: at the end a worker that is done finds something small to do."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cpu_bfloat16") and not cpu_bfloat16_works():
        pytest.skip("bfloat16 crashes on this CPU (illegal instruction); set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16")


def _threads() -> dict[str, int | str | None]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {"torch": torch.get_num_threads()} | {name: os.environ.get(name) for name in names}


@pytest.fixture(autouse=True)
def _threads_stay() -> Iterator[None]:
    """Another number of threads rounds differently: a test that left one behind would break those after it."""
    before = _threads()
    yield
    assert _threads() == before
