import pytest
import torch

from momentalign.encoders import MNIST_CNN
from momentalign.training._data import open_rows
from momentalign.training._steps import BLOCK, Sampler, seed_step, training_pools
from tests.training.problems import three_domains

POOLS = [torch.arange(10, 30), torch.arange(50, 57)]


def test_steps_are_the_rows_of_blocks_from_any_start() -> None:
    sampler = Sampler(POOLS, [0, 1], 4, trial=3)
    whole = list(sampler.steps(0, 2 * BLOCK + 5))
    assert torch.equal(torch.stack(whole[:BLOCK]), sampler.block(0))
    assert torch.equal(torch.stack(whole[BLOCK : 2 * BLOCK]), sampler.block(1))
    for start in (1, BLOCK - 1, BLOCK, BLOCK + 7):
        assert all(map(torch.equal, sampler.steps(start, 2 * BLOCK + 5), whole[start:]))


def test_each_domain_gives_a_mini_batch_of_its_own_rows_with_replacement() -> None:
    block = Sampler(POOLS, [0, 1], 16, trial=0).block(0)
    assert block.shape == (BLOCK, 32)
    assert set(block[:, :16].flatten().tolist()) == set(range(10, 30))
    assert set(block[:, 16:].flatten().tolist()) == set(range(50, 57))


def test_epochs_have_every_row_once_in_a_new_order() -> None:
    pool = [torch.arange(50, 57)]
    sampler = Sampler(pool, [-1], 4, trial=0, epochs=True)
    drawn = torch.cat(list(sampler.steps(0, 3 * BLOCK)))
    orders = [epoch.tolist() for epoch in drawn[: 7 * 171].split(7)]
    assert all(sorted(order) == list(range(50, 57)) for order in orders)
    assert len({tuple(order) for order in orders}) > 100
    for start in (1, BLOCK - 1, BLOCK, BLOCK + 7):
        assert torch.equal(torch.cat(list(sampler.steps(start, 3 * BLOCK))), drawn[4 * start :])
    large = Sampler(pool, [-1], 16, trial=0, epochs=True).block(1)  # a batch larger than an epoch
    assert large.shape == (BLOCK, 16)
    assert torch.equal(large.flatten()[: 7 * 3 - 16 * BLOCK % 7].bincount()[50:] > 0, torch.ones(7, dtype=torch.bool))


def test_ranks_share_out_every_mini_batch() -> None:
    whole = Sampler(POOLS, [0, 1], 4, trial=0).block(0)
    first, second = (Sampler(POOLS, [0, 1], 4, trial=0, rank=rank, ranks=2).block(0) for rank in (0, 1))
    assert torch.equal(first, whole[:, [0, 1, 4, 5]])
    assert torch.equal(second, whole[:, [2, 3, 6, 7]])
    with pytest.raises(ValueError, match=r"multiple of the number of devices \(2\), but is 5. Use --set batch_size=6"):
        Sampler(POOLS, [0, 1], 5, trial=0, ranks=2)


def test_a_domain_is_drawn_from_alike_whoever_is_held_out() -> None:
    both = Sampler(POOLS, [0, 1], 4, trial=0).block(2)
    alone = Sampler(POOLS[1:], [1], 4, trial=0).block(2)
    assert torch.equal(both[:, 4:], alone)
    assert not torch.equal(alone, Sampler(POOLS[1:], [2], 4, trial=0).block(2))
    assert not torch.equal(alone, Sampler(POOLS[1:], [1], 4, trial=1).block(2))


def test_pools_are_the_training_rows() -> None:
    data = three_domains()
    rows = open_rows(data, MNIST_CNN(1, 8).preprocessing, torch.device("cpu"))
    pools = training_pools(rows, ["a", "c"], "in", pool=False)
    for pool, name in zip(pools, ("a", "c"), strict=True):
        assert isinstance(rows.raw, torch.Tensor)
        assert torch.equal(rows.raw[pool], data.split(name, "in").tensor)
    assert torch.equal(training_pools(rows, ["a", "c"], "in", pool=True)[0], torch.cat(pools))
    with pytest.raises(ValueError, match=r"Domain 'a' has no rows in split 'train'"):
        training_pools(rows, ["a"], "train", pool=False)


def test_a_step_draws_the_same_numbers_again() -> None:
    def draw(*key: int) -> torch.Tensor:
        seed_step(*key, torch.device("cpu"))
        return torch.rand(3)

    assert torch.equal(draw(0, 5, 0), draw(0, 5, 0))
    for other in ((1, 5, 0), (0, 6, 0), (0, 5, 1)):
        assert not torch.equal(draw(0, 5, 0), draw(*other))
