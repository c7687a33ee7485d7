"""
Several processes with torchrun
===============================

Under DistributedDataParallel each process sees a part of the batch, and means over parts are not the penalty of the
whole: penalties gather the rows of all processes themselves. Nothing in the loop changes. Start it with `torchrun
--nproc-per-node 2 ddp_torchrun.py`; run plainly, the script does that itself, and trains in one process beside it to
compare.
"""

import json
import os
import subprocess
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from momentalign import CMA


def draw(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw inputs (96, 8), targets (96,) and domains (96,) of three domains."""
    generator = torch.Generator().manual_seed(seed)
    targets, domains = torch.randint(2, (96,), generator=generator), torch.arange(96) % 3
    inputs = torch.randn(96, 8, generator=generator)
    inputs[:, 0] += targets
    inputs[:, 1] += targets * domains
    return inputs, targets, domains


def train(seed: int, steps: int = 40) -> list[float]:
    """Train on this process's share of every batch and return the penalty of each step."""
    torch.manual_seed(seed)
    head = nn.Linear(16, 2)
    model: nn.Module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), head)
    seen: dict[str, Tensor] = {}
    head.register_forward_hook(lambda module, inputs, output: seen.update(features=inputs[0]))
    rank, processes = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    if processes > 1:
        model = DistributedDataParallel(model)
    penalty = CMA(gradient_weight=1.0, hessian_weight=1.0, scaling="relative")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    values = []
    for step in range(steps):
        inputs, targets, domains = (part[rank::processes] for part in draw(1000 * seed + step))
        logits = model(inputs)
        value = penalty(seen["features"], logits, targets, domains)
        loss = F.cross_entropy(logits, targets) + value
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        values.append(float(value.detach()))
    return values


SEEDS = range(3)
if "RANK" in os.environ:  # started by torchrun
    dist.init_process_group("gloo")
    results = [train(seed) for seed in SEEDS]
    if dist.get_rank() == 0:
        print(json.dumps(results))
    dist.destroy_process_group()
    sys.exit()

# %%
# Two processes of 48 rows against one of 96, on three seeds: the same penalty at every step, up to rounding.

command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", sys.argv[0]]
environment = os.environ | {"OMP_NUM_THREADS": "1"}
answer = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
two = torch.tensor(json.loads(answer.stdout))
one = torch.tensor([train(seed) for seed in SEEDS])
print(f"largest difference of the penalties: {(one - two).abs().max():.1e} of {one.max():.3f}")

# %%
import altair as alt  # noqa: E402  (the processes do without)
import pandas as pd  # noqa: E402

curves = pd.DataFrame(
    {"step": step, "seed": f"seed {seed}", "penalty": float(value), "processes": name}
    for name, values in (("one", one), ("two", two))
    for seed in SEEDS
    for step, value in enumerate(values[seed])
)
chart = alt.Chart(curves).encode(x="step:Q", y="penalty:Q", color=alt.Color("processes:N"))
lines = chart.transform_filter("datum.processes == 'one'").mark_line(strokeWidth=4, opacity=0.5)
points = chart.transform_filter("datum.processes == 'two'").mark_point(filled=True, size=18)
(lines + points).properties(width=170, height=150).facet(alt.Column("seed:N", title=None)).save("ddp_torchrun.svg")
