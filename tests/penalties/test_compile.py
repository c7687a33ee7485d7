"""In one process a penalty compiles as one graph and reads nothing back from the device."""

import shutil

import pytest
import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

from momentalign import CMA
from tests.penalties.cases import CASES, Case, value_and_gradients
from tests.references import assert_equal

# Tracing a custom autograd function, torch instantiates its base class and warns of that itself.
pytestmark = [pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"), pytest.mark.slow]

STATELESS = [case for case in CASES if not case.remembers]


@pytest.fixture(autouse=True)
def _forget_compiled_code():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def number(case: Case) -> int | None:
    return 3 if case.needs_number else None


@pytest.mark.parametrize("case", STATELESS, ids=str)
def test_one_graph(case: Case) -> None:
    eager, penalty = (case.make(num_domains=number(case), anneal_steps=1) for _ in range(2))
    compiled = torch.compile(penalty, fullgraph=True, backend="aot_eager")
    for seed in range(3):
        inputs = case.batch(seed)
        for mine, its in zip(value_and_gradients(compiled, *inputs), value_and_gradients(eager, *inputs), strict=True):
            assert_equal(mine, its, 1e-12)
    assert penalty.step.item() == 3


@pytest.mark.skipif(shutil.which("g++") is None and shutil.which("clang++") is None, reason="needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # its compiler uses parts of it that it warns of
def test_default_backend() -> None:
    case = next(case for case in CASES if case.name == "cma-auto")
    inputs = case.batch(dtype=torch.float32)
    compiled = torch.compile(CMA(), fullgraph=True)
    for mine, its in zip(value_and_gradients(compiled, *inputs), value_and_gradients(CMA(), *inputs), strict=True):
        assert_equal(mine, its, 3e-5)


def without_values(case: Case, **options: int | None) -> None:
    """Two training calls with backward on tensors that have shapes but no values to read."""
    shapes = [(tensor.shape, tensor.dtype) for tensor in case.batch()]
    with FakeTensorMode():
        penalty = case.make(validate=False, **options)
        for _ in range(2):
            features, logits, targets, domains = (torch.zeros(shape, dtype=dtype) for shape, dtype in shapes)
            value = penalty(features.requires_grad_(), logits.requires_grad_(), targets, domains)
            value.backward()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nothing_is_read_back(case: Case) -> None:
    without_values(case, num_domains=number(case))


@pytest.mark.parametrize("case", [case for case in CASES if case.needs_number], ids=str)
def test_the_number_of_domains_is_what_saves_reading(case: Case) -> None:
    with pytest.raises(DynamicOutputShapeException):
        without_values(case)
