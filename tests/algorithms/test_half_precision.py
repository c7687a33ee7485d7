"""With a network whose forward pass runs in bfloat16 every algorithm still takes about the same step."""

import pytest
import torch
from torch import Tensor, nn

from momentalign.algorithms import Batch, algorithm_names
from tests.algorithms.tiny import batch, build, descents, hparams

pytestmark = pytest.mark.cpu_bfloat16


class Autocast(nn.Module):
    """What a loop puts in the network's place."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            features, logits = self.network(inputs)
        return features.float(), logits.float()


def moves(name: str, *, half: bool) -> Tensor:
    """Where two steps of plain descent take the network."""
    # Weights small enough that the cross-entropy is a part of what is compared.
    weights = {key: 0.1 for key in hparams(name) if key.endswith("weight")}
    waiting = {"anneal_steps": 0} if "anneal_steps" in hparams(name) else {}
    algorithm = build(name, **weights, **waiting).float()
    network = algorithm.network
    optimizers = descents(algorithm, 1.0)
    before = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
    if half:
        algorithm.network = Autocast(network)
    for step in range(2):
        rows = batch(step)
        torch.manual_seed(step)
        logged = algorithm.update(
            Batch(rows.inputs.float(), rows.targets, rows.domains), optimizers, lambda loss: loss.backward()
        )
        assert all(value.isfinite() for value in logged.values())
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()]) - before


@pytest.mark.parametrize("name", algorithm_names())
def test_step_in_half_precision(name: str) -> None:
    full, half = moves(name, half=False), moves(name, half=True)
    # AND-Mask drops an entry whose gradient's sign is not certain in eight bits.
    tolerance = 0.5 if name == "andmask" else 0.05
    assert 0 < (half - full).norm() < tolerance * full.norm()
