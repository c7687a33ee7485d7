import numpy as np
import pytest
import torch

from momentalign.data import Split, holdout_indices, seed_hash, split_in_out


@pytest.mark.parametrize(("args", "seed"), [((0, 0), 894182419), ((0, 1), 1514274641), ((1, 0), 785910682)])
def test_seed_hash_is_domainbeds(args: tuple[int, int], seed: int) -> None:
    assert seed_hash(*args) == seed


def test_seed_hash_tells_names_apart() -> None:
    assert len({seed_hash("data", 0), seed_hash("sampling", 0), seed_hash("data", 1)}) == 3


def test_holdout_is_domainbeds() -> None:
    inside, outside = holdout_indices(10, trial=0, domain=0)
    assert outside.tolist() == [2, 3]
    assert inside.tolist() == [8, 1, 4, 5, 0, 9, 6, 7]


def test_shuffling_an_array_is_shuffling_a_list() -> None:
    # DomainBed shuffles a Python list; holdout_indices an array, which is faster.
    keys = list(range(1000))
    np.random.RandomState(seed_hash(3, 2)).shuffle(keys)
    inside, outside = holdout_indices(1000, trial=3, domain=2)
    assert torch.cat([outside, inside]).tolist() == keys


@pytest.mark.parametrize(("n", "held_out"), [(0, 0), (1, 0), (4, 0), (5, 1), (599, 119)])
def test_holdout_rounds_down(n: int, held_out: int) -> None:
    inside, outside = holdout_indices(n, trial=0, domain=0)
    assert len(outside) == held_out
    assert sorted([*inside.tolist(), *outside.tolist()]) == list(range(n))


def test_holdout_rejects_a_percentage() -> None:
    with pytest.raises(ValueError, match=r"'fraction' should be between 0 and 1, but is 20\."):
        holdout_indices(10, trial=0, domain=0, fraction=20)


def test_split_in_out_keeps_rows_together_and_seeds_by_position() -> None:
    rows = Split(torch.arange(50.0).unsqueeze(1), torch.arange(50))
    divided = split_in_out({"first": rows, "second": rows}, trial=0)
    for splits in divided.values():
        assert list(splits) == ["in", "out"]
        for split in splits.values():
            assert torch.equal(split.inputs.squeeze(1).long(), split.targets)
    assert not torch.equal(divided["first"]["out"].targets, divided["second"]["out"].targets)
