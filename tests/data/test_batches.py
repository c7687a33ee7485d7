"""Balanced batches: equal numbers of every domain, every row once a round, the same on all ranks and after a resume."""

from collections import Counter

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from momentalign.data import DomainBatchSampler

DOMAINS = np.repeat([7, 3, 5], [10, 4, 7])


def batches(**options: int) -> list[list[int]]:
    return list(DomainBatchSampler(DOMAINS, 4, **options))


def test_every_batch_has_the_same_number_of_every_domain() -> None:
    drawn = batches()
    assert len(drawn) == 3  # ten rows, four at a time
    for batch in drawn:
        assert DOMAINS[batch].tolist() == [3] * 4 + [5] * 4 + [7] * 4


@pytest.mark.parametrize(("label", "number"), [(3, 4), (5, 7), (7, 10)])
def test_all_rows_of_a_domain_come_once_before_one_comes_again(label: int, number: int) -> None:
    sampler = DomainBatchSampler(DOMAINS, 4, batches=5)
    drawn = [row for _ in range(3) for batch in sampler for row in batch if DOMAINS[row] == label]
    rounds = [drawn[start : start + number] for start in range(0, len(drawn) - number + 1, number)]
    assert len(rounds) >= 6
    for one in rounds:
        assert sorted(one) == np.flatnonzero(np.equal(DOMAINS, label)).tolist()
    assert len(set(map(tuple, rounds))) > 1  # in a new order


def test_epochs_differ_seeds_differ_and_an_epoch_can_be_repeated() -> None:
    sampler = DomainBatchSampler(DOMAINS, 4)
    first, second = list(sampler), list(sampler)
    assert first != second
    sampler.set_epoch(1)
    assert list(sampler) == second
    assert batches() == first
    assert batches(seed=1) != first


def test_domains_of_one_size_are_drawn_from_in_orders_of_their_own() -> None:
    drawn = np.array(list(DomainBatchSampler(np.repeat([0, 1], 20), 5)))
    assert sorted(drawn[:, :5].ravel()) == list(range(20))
    assert (drawn[:, :5] != drawn[:, 5:] - 20).any()


def test_ranks_share_a_batch() -> None:
    whole = batches()
    shares = [batches(rank=rank, ranks=2) for rank in range(2)]
    for batch, *parts in zip(whole, *shares, strict=True):
        assert Counter(row for part in parts for row in part) == Counter(batch)
        assert [DOMAINS[part].tolist() for part in parts] == [[3, 3, 5, 5, 7, 7]] * 2


def test_a_domain_smaller_than_its_share_repeats_its_rows() -> None:
    (batch,) = DomainBatchSampler(["a", "b", "b", "b"], 3)
    assert batch[:3] == [0, 0, 0]
    assert sorted(batch[3:]) == [1, 2, 3]


def test_in_a_loader() -> None:
    domains = torch.from_numpy(DOMAINS)
    rows = TensorDataset(torch.arange(len(DOMAINS)), domains)
    loader: DataLoader[tuple[torch.Tensor, ...]] = DataLoader(rows, batch_sampler=DomainBatchSampler(domains, 2))
    assert len(loader) == 5
    assert all(torch.bincount(own).tolist() == [0, 0, 0, 2, 0, 2, 0, 2] for _, own in loader)


@pytest.mark.parametrize(
    ("domains", "options", "message"),
    [
        ([], {}, r"'domains' should have shape \(n,\)"),
        ([[0, 1]], {}, r"has shape \(1, 2\)"),
        ([0, 1], {"rows": 0}, "'rows' should be at least 1"),
        ([0, 1], {"rows": 3, "ranks": 2}, "Use rows=4"),
        ([0, 1], {"rank": 2, "ranks": 2}, "'rank' should be from 0 to 1"),
        ([0, 1], {"batches": 0}, "'batches' should be at least 1"),
    ],
)
def test_bad_arguments(domains: list[int], options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DomainBatchSampler(domains, options.pop("rows", 2), **options)
