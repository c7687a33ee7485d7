"""Two processes give the number and the gradients that one gives on the whole batch."""

from pathlib import Path

import pytest
import torch.distributed as dist
import torch.multiprocessing

from tests.penalties.ranks import work

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")
def test_two_ranks_are_one_process(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(work, (str(tmp_path),), nprocs=2)
    for rank in range(2):
        assert Path(tmp_path, f"rank{rank}").read_text() == "done"
