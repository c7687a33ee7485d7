"""Two processes give the number and the gradients that one gives on the whole batch."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing

from momentalign.penalties._gather import _AllGather
from tests.penalties.ranks import work

pytestmark = pytest.mark.slow

needs_gloo = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")


@needs_gloo
def test_two_ranks_are_one_process(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(work, (str(tmp_path),), nprocs=2)
    for rank in range(2):
        assert Path(tmp_path, f"rank{rank}").read_text() == "done"


@needs_gloo
def test_second_derivatives_through_other_ranks_are_refused(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        leaf = torch.tensor([2.0], requires_grad=True)
        (gradient,) = torch.autograd.grad(_AllGather.apply(leaf).square().sum(), leaf, create_graph=True)
        assert gradient.item() == 4
        with pytest.raises(RuntimeError, match="once_differentiable"):
            gradient.backward()
    finally:
        dist.destroy_process_group()
