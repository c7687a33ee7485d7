import pytest
import torch

from momentalign.algorithms import Batch
from tests.algorithms.tiny import ROWS, K, batch


@pytest.mark.parametrize("number", [K, None])
def test_one_batch_a_domain(number: int | None) -> None:
    rows = batch()
    parts = rows.per_domain(number)
    assert [len(part) for part in parts] == [ROWS] * K
    assert [part.domains.unique().tolist() for part in parts] == [[0], [1], [2]]
    assert torch.equal(torch.cat([part.inputs for part in parts]), rows.inputs)
    assert torch.equal(torch.cat([part.targets for part in parts]), rows.targets)


@pytest.mark.parametrize("domains", [[0, 0, 1], [0, 1, 0, 1], [1, 1, 0, 0]])
def test_blocks_of_other_shape_are_refused(domains: list[int]) -> None:
    rows = Batch(torch.zeros(len(domains), 1), torch.zeros(len(domains), dtype=torch.long), torch.tensor(domains))
    with pytest.raises(ValueError, match=r"should be 0 … 1 in blocks of one size, but a batch of . rows is not"):
        rows.per_domain(2)
