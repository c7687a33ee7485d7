"""What only an accelerator can show: it agrees with the CPU, is never waited for, and a captured step goes on."""

import pytest
import torch
from torch import Tensor

from tests.penalties.cases import CASES, Case, Inputs, seeded
from tests.references import assert_equal

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

cases = pytest.mark.parametrize("case", CASES, ids=str)


def on_device(inputs: Inputs) -> Inputs:
    features, logits, targets, domains = (tensor.cuda() for tensor in inputs)
    return features.requires_grad_(), logits.requires_grad_(), targets, domains


def step(penalty: torch.nn.Module, inputs: Inputs) -> list[Tensor]:
    value = penalty(*inputs)
    return [value.detach(), *torch.autograd.grad(value, inputs[:2], allow_unused=True, materialize_grads=True)]


@cases
def test_device_and_cpu_agree(case: Case) -> None:
    if case.random:
        pytest.skip("the devices' generators differ")
    there, here = case.make(num_domains=3).cuda(), case.make(num_domains=3)
    for seed in range(3):
        inputs = case.batch(seed)
        mine = step(there, on_device(inputs))
        its = step(here, (inputs[0].requires_grad_(), inputs[1].requires_grad_(), *inputs[2:]))
        for a, b in zip(mine, its, strict=True):
            assert_equal(a.cpu(), b, 1e-9)


@cases
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_the_device_is_never_waited_for(case: Case) -> None:
    penalty = case.make(num_domains=3 if case.needs_number else None, anneal_steps=2).cuda()
    inputs = on_device(case.batch())
    step(penalty, inputs)
    torch.cuda.synchronize()
    try:
        torch.cuda.set_sync_debug_mode("error")
        for _ in range(3):
            step(penalty, inputs)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@cases
def test_a_captured_step_goes_on_as_an_eager_one_does(case: Case) -> None:
    if case.random:
        pytest.skip("a captured generator draws other numbers")
    captured, eager = (case.make(num_domains=3, anneal_steps=5).cuda() for _ in range(2))
    inputs = on_device(case.batch())
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(captured, inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step(captured, inputs)
    for _ in range(3):
        step(eager, inputs)
    for seed in range(1, 6):
        with torch.no_grad():
            for static, new in zip(inputs, case.batch(seed), strict=True):
                static.copy_(new)
        graph.replay()
        for mine, its in zip(results, seeded(step, eager, inputs), strict=True):
            assert_equal(mine.cpu(), its.cpu(), 1e-9)
    assert captured.step.item() == eager.step.item() == 8
