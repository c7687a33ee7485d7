import pytest
import torch

from momentalign.bench._measure import measure_in_turns, peak_bytes

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


def test_peak_counts_what_lives_at_once_and_views_not_at_all() -> None:
    start = torch.zeros(1000)

    def chain() -> None:
        first = start + 1  # 4000 bytes
        second = first + 1  # 8000 alive
        del first
        third = (second + 1).view(10, 100).T[:5]  # 8000 alive: the first is gone, views cost nothing
        del second, third

    assert peak_bytes(chain, CPU) == 8000


def test_peak_counts_what_backward_keeps() -> None:
    start = torch.ones(1000, requires_grad=True)

    def square_of_square() -> None:
        (start.square().square().sum()).backward()

    # Two squares are kept for backward, and gradients come on top.
    assert peak_bytes(square_of_square, CPU) >= 3 * 4000


def test_functions_take_turns() -> None:
    calls: list[str] = []
    measure_in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, CPU, budget=0.0)
    timed = calls[-6:]
    assert timed == ["a", "b"] * 3
