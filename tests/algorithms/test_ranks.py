"""Two processes take the steps that one takes on the whole batch."""

from pathlib import Path

import pytest
import torch.distributed as dist
import torch.multiprocessing

from momentalign.algorithms import algorithm_names
from tests.algorithms.ranks import work
from tests.algorithms.tiny import ALONE

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")
def test_two_ranks_are_one_process(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(work, (str(tmp_path),), nprocs=2)
    number = len(set(algorithm_names()) - ALONE)
    for rank in range(2):
        assert Path(tmp_path, f"rank{rank}").read_text() == f"{number} done"
