"""CUDA graphs: what can go wrong while one is captured."""

import gc

import pytest
import torch

from momentalign._graphs import Graph, Replayed, without_collection


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_as_it_was_afterwards(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with without_collection():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestOnTheDevice:
    def test_nothing_is_collected_during_a_capture(self) -> None:
        collecting: list[bool] = []
        Graph(lambda: collecting.append(gc.isenabled()), torch.device("cuda", 0))
        assert collecting == [False]

    def test_a_function_that_waits_is_called_as_it_is(self) -> None:
        numbers = torch.arange(3, device="cuda")
        waiting, working = (
            Replayed(lambda: int(numbers.sum()), numbers.device),
            Replayed(lambda: 2 * numbers, numbers.device),
        )
        for k in range(4):
            numbers.fill_(k)
            assert waiting() == 3 * k
            assert working().tolist() == [2 * k] * 3
        assert waiting.graph is None
        assert working.graph is not None
