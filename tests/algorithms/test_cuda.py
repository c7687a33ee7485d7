"""What only an accelerator can show: a step waits for nothing, and where it says so it can be captured."""

import pytest
import torch
from torch import nn

from momentalign.algorithms import Algorithm, Batch, Network, algorithm_names, find_algorithm
from tests.algorithms.tiny import ALONE, CLASSES, FEATURES, INPUTS, K, batch, hparams
from tests.references import assert_equal

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

CAPTURABLE = [name for name in algorithm_names() if name not in ALONE]


def on_device(seed: int) -> Batch:
    rows = batch(seed)
    return Batch(rows.inputs.cuda(), rows.targets.cuda(), rows.domains.cuda())


def build(name: str) -> Algorithm:
    torch.manual_seed(0)
    network = Network(nn.Sequential(nn.Linear(INPUTS, FEATURES), nn.Tanh()), FEATURES, CLASSES).double().cuda()
    # Annealing ends after the capture.
    waiting = {"anneal_steps": 5} if "anneal_steps" in hparams(name) else {}
    return find_algorithm(name).build(network, K, hparams(name, clip=1.0, **waiting)).double().cuda()


@pytest.mark.parametrize("name", algorithm_names())
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_the_device_is_never_waited_for(name: str) -> None:
    algorithm = build(name)
    optimizers = algorithm.optimizers()
    batches = [on_device(step) for step in range(4)]
    algorithm.update(batches[0], optimizers, lambda loss: loss.backward())
    torch.cuda.synchronize()
    try:
        torch.cuda.set_sync_debug_mode("error")
        for rows in batches[1:]:
            algorithm.update(rows, optimizers, lambda loss: loss.backward())
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", CAPTURABLE)
def test_a_captured_step_goes_on_as_an_eager_one_does(name: str) -> None:
    captured, eager = build(name), build(name)
    assert captured.capturable
    mine, its = captured.optimizers(), eager.optimizers()
    rows = on_device(0)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            captured.update(rows, mine, lambda loss: loss.backward())
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logged = captured.update(rows, mine, lambda loss: loss.backward())
    for _ in range(3):
        eager.update(on_device(0), its, lambda loss: loss.backward())
    for step in range(1, 6):
        for static, new in zip(
            (rows.inputs, rows.targets), (on_device(step).inputs, on_device(step).targets), strict=True
        ):
            static.copy_(new)
        graph.replay()
        expected = eager.update(on_device(step), its, lambda loss: loss.backward())
        assert list(logged) == list(expected)
        for key, value in expected.items():
            assert_equal(logged[key].cpu(), value.cpu(), 1e-8)
    for a, b in zip(captured.parameters(), eager.parameters(), strict=True):
        assert_equal(a.cpu(), b.cpu(), 1e-8)
