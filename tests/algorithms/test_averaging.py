"""Averages of weights against plain means over the weights of every step."""

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from momentalign.algorithms import AVERAGES, WeightAverage, make_average

STEPS, EVERY = 60, 7
RECORDS = [step for step in range(STEPS) if step % EVERY == 0 or step == STEPS - 1]


class Walk(nn.Module):
    """A network whose weights wander: trained and frozen parameters, floating-point and integer buffers."""

    count: Tensor
    running: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3, 2))
        self.bias = nn.Parameter(torch.zeros(2))
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self.register_buffer("running", torch.zeros(4))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.generator = torch.Generator().manual_seed(0)

    @torch.no_grad()
    def move(self) -> None:
        for tensor in (self.weight, self.bias, self.running):
            tensor += torch.randn(tensor.shape, generator=self.generator)
        self.count += 1

    def flat(self) -> Tensor:
        return torch.cat([t.detach().double().flatten() for t in (self.weight, self.bias, self.running)])


def walk(
    average: WeightAverage, network: Walk, losses: Sequence[float], first: int = 0, stop: int = STEPS
) -> tuple[list[Tensor], dict[int, Tensor | None]]:
    """The weights after every step, and the average at every record."""
    seen, means = [], {}
    for step in range(first, stop):
        average.before(step)
        network.move()
        average.add()
        seen.append(network.flat())
        if step in RECORDS:
            average.record(step, losses[RECORDS.index(step)])
            with average.applied() as applied:
                means[step] = network.flat() if applied else None
    return seen, means


def make(name: str, network: nn.Module, start: int = 0) -> WeightAverage:
    average = make_average(name, network, STEPS, start)
    assert average is not None
    return average


FLAT = [1.0] * len(RECORDS)


@pytest.mark.parametrize("start", [0, 1, 22, 59, 1000])
def test_a_simple_average_is_the_mean_of_the_weights_of_all_steps(start: int) -> None:
    network = Walk()
    seen, means = walk(make("sma", network, start), network, FLAT)
    for step, mean in means.items():
        if step < start:
            assert mean is None
        else:
            assert mean is not None
            torch.testing.assert_close(mean, torch.stack(seen[start : step + 1]).mean(0), rtol=1e-6, atol=1e-6)


def test_an_exponential_average_follows_its_recursion() -> None:
    network = Walk()
    seen, means = walk(make("ema", network, start=22), network, FLAT)  # it begins with the run all the same
    decay = 1 - 5 / STEPS
    assert [make_average("ema", Walk(), steps).decay for steps in (5001, 3)] == [0.999, 0]  # type: ignore[union-attr]
    total, share = torch.zeros_like(seen[0]), 0.0
    for step, weights in enumerate(seen):
        total, share = decay * total + (1 - decay) * weights, decay * share + 1 - decay
        if step in means:
            mean = means[step]
            assert mean is not None
            torch.testing.assert_close(mean, total / share, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("losses", "expected", "start"),
    [
        ([5, 4, 3, 2, 2.5, 2.4, 2.6, 2.2, 2.1, 2], (3, 9), 0),  # a valley to the end
        ([5, 1, 1.1, 1.2, 2, 2, 1.3, 2, 2, 2], (1, 6), 0),  # in again once, then out at the end
        ([1, 1, 1, 2, 1.2, 2, 1.3, 2, 2, 2], (0, 6), 0),  # twice, at last to the height itself
        ([1, 1.1, 1.2, 2, 2, 2, 2, 2, 2, 1], (0, 2), 0),  # six in a row: over
        ([1, 1.1, 1.2, 2, 2, 2, 2, 2, 1, 2], (0, 8), 0),  # five are not
        ([9, 1, 5, 1, 5, 5, 5, 5, 5, 5], (1, 3), 0),  # one of the first three is above the height
        ([9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5], None, 0),
        ([math.nan, 1, math.nan, 2, 2.1, 2.2, math.nan, 2, 2, 2], (3, 9), 0),
        ([0.1, 0.1, 0.1, 0.1, 5, 4, 3, 3, 3, 3], (6, 9), 22),  # the search begins where the penalty does
    ],
)
def test_swad_averages_the_steps_of_the_valley(
    losses: list[float], expected: tuple[int, int] | None, start: int
) -> None:
    assert len(losses) == len(RECORDS)
    network = Walk()
    average = make("swad", network, start)
    seen, means = walk(average, network, losses)
    ends = [-1, *RECORDS]
    first, last = expected or (len(RECORDS) - 1, len(RECORDS) - 1)
    steps = seen[ends[first] + 1 : ends[last + 1] + 1]
    final = means[STEPS - 1]
    assert final is not None
    torch.testing.assert_close(final, torch.stack(steps).mean(0), rtol=1e-6, atol=1e-6)
    begins = RECORDS[first + 2] if expected else STEPS - 1
    assert [step for step, mean in means.items() if mean is not None] == [step for step in RECORDS if step >= begins]


@pytest.mark.parametrize("name", AVERAGES[1:])
def test_the_network_gets_its_own_weights_back(name: str) -> None:
    network = Walk()
    average = make(name, network)
    walk(average, network, FLAT)
    before = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    with average.applied() as applied:
        assert applied
        assert not torch.equal(network.weight, before["weight"])
        assert not torch.equal(network.running, before["running"])
        assert torch.equal(network.frozen, before["frozen"])
        assert network.count == STEPS
    assert all(torch.equal(tensor, before[key]) for key, tensor in network.state_dict().items())


LOSSES = [5, 1, 1.1, 1.2, 2, 2, 1.3, 2, 2, 2.0]


@pytest.mark.parametrize("name", AVERAGES[1:])
@pytest.mark.parametrize("record", range(len(RECORDS) - 1))
def test_the_state_restores_it_bit_by_bit(name: str, record: int) -> None:
    whole = Walk()
    _, expected = walk(make(name, whole), whole, LOSSES)
    network = Walk()
    average = make(name, network)
    cut = RECORDS[record] + 1
    walk(average, network, LOSSES, 0, cut)
    again = make(name, network)
    again.load(*average.state())
    _, means = walk(again, network, LOSSES, cut)
    for step, mean in means.items():
        other = expected[step]
        assert (mean is None) == (other is None)
        assert mean is None or other is None or torch.equal(mean, other)


@pytest.mark.parametrize("name", AVERAGES[1:])
def test_half_precision_weights_are_averaged_in_float32(name: str) -> None:
    network = Walk().bfloat16()
    average = make(name, network)
    assert {tensor.dtype for tensor in average.total} == {torch.float32}
    _, means = walk(average, network, FLAT)
    assert means[STEPS - 1] is not None
    assert network.weight.dtype == torch.bfloat16


def test_none_is_no_average_and_other_names_are_refused() -> None:
    assert make_average("none", Walk(), 5) is None
    with pytest.raises(KeyError):
        make("swad", Walk()).load(*make("sma", Walk()).state())
    with pytest.raises(ValueError, match=r"'average' should be one of 'none', 'ema', 'sma', 'swad', but is 'swa'"):
        make_average("swa", Walk(), 5)
