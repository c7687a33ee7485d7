"""What holds for every algorithm of the list."""

import copy
import io

import pytest
import torch
from torch import Tensor, nn

from momentalign.algorithms import Algorithm, Batch, Network, algorithm_names, find_algorithm
from tests.algorithms.tiny import ALONE, FEATURES, INPUTS, ROWS, K, batch, build, descents, hparams, run

pytestmark = pytest.mark.slow

NAMES = algorithm_names()
TURNS = 2
"""Updates until every algorithm has moved its network: DANN's discriminator goes first."""

every = pytest.mark.parametrize("name", NAMES)


def parameters(algorithm: Algorithm) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in algorithm.network.parameters()]


def test_the_documented_names_exist() -> None:
    algorithms = "erm groupdro fish iga andmask dann cdann selfreg"
    penalties = "irm vrex mmd coral fishr hgp hutchinson"
    family = "gradient-matching hessian-matching moment-alignment cma cma-momentum cma-diagonal"
    assert {*algorithms.split(), *penalties.split(), *family.split()} <= set(NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "erm"])
def test_its_term_changes_the_update(name: str) -> None:
    """Plain descent, so that the move is the gradient: Adam's first steps hardly look at its size."""
    moved = {}
    for each in ("erm", name):
        algorithm = build(each, **({"anneal_steps": 0} if "anneal_steps" in hparams(each) else {}))
        before = parameters(algorithm)
        run(algorithm, descents(algorithm, 1e-6), range(TURNS))
        after = parameters(algorithm)
        moved[each] = torch.cat([(b - a).flatten() for a, b in zip(before, after, strict=True)])
    assert (moved[name] - moved["erm"]).norm() > 1e-4 * moved["erm"].norm()


@every
def test_a_checkpoint_goes_on_bit_for_bit(name: str) -> None:
    steps, kill = 6, 3
    whole, half = build(name, steps), build(name, steps)
    optimizers = whole.optimizers()
    expected = run(whole, optimizers, range(steps))

    its = half.optimizers()
    run(half, its, range(kill))
    file = io.BytesIO()
    torch.save([half.state_dict(), {key: optimizer.state_dict() for key, optimizer in its.items()}], file)
    file.seek(0)
    weights, states = torch.load(file)
    resumed = build(name, steps, seed=5)
    resumed.load_state_dict(weights)
    fresh = resumed.optimizers()
    for key, optimizer in fresh.items():
        optimizer.load_state_dict(states[key])
    found = run(resumed, fresh, range(kill, steps))

    assert [list(logged) for logged in found] == [list(logged) for logged in expected[kill:]]
    for mine, its_ in zip(found, expected[kill:], strict=True):
        assert all(torch.equal(mine[key], its_[key]) for key in mine)
    for key, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[key]), key


@every
def test_what_is_logged_are_numbers_without_a_graph(name: str) -> None:
    algorithm = build(name)
    for logged in run(algorithm, algorithm.optimizers(), range(3)):
        assert next(iter(logged)) == "loss"
        for value in logged.values():
            assert value.ndim == 0
            assert value.isfinite()
            assert not value.requires_grad


@every
def test_each_row_passes_the_encoder_once(name: str) -> None:
    algorithm, seen = build(name), []
    algorithm.network.encoder.register_forward_hook(lambda module, args, output: seen.append(len(args[0])))
    run(algorithm, algorithm.optimizers(), range(TURNS))
    assert sum(seen) == TURNS * K * ROWS


@every
def test_the_batch_stays_as_it_was(name: str) -> None:
    algorithm, rows = build(name), batch()
    kept = copy.deepcopy(rows)
    for _ in range(TURNS):
        algorithm.update(rows, algorithm.optimizers(), lambda loss: loss.backward())
    assert all(torch.equal(getattr(rows, field), getattr(kept, field)) for field in ("inputs", "targets", "domains"))
    assert not rows.inputs.requires_grad


@every
def test_learns(name: str) -> None:
    """Twenty steps on one batch lower its cross-entropy, also with dropout and in float32."""
    torch.manual_seed(0)
    network = Network(nn.Sequential(nn.Linear(INPUTS, FEATURES), nn.Tanh()), FEATURES, 3, dropout=0.1)
    weights = {key: 0.01 for key in hparams(name) if key.endswith("weight")}
    algorithm = find_algorithm(name).build(network, K, hparams(name, 20, lr=0.02, **weights))
    rows = batch()
    rows = type(rows)(rows.inputs.float(), rows.targets, rows.domains)
    optimizers = algorithm.optimizers()

    def loss() -> float:
        network.eval()
        with torch.no_grad():
            value = float(nn.functional.cross_entropy(network(rows.inputs)[1], rows.targets))
        network.train()
        return value

    before = loss()
    for _ in range(40):
        algorithm.update(rows, optimizers, lambda value: value.backward())
    assert loss() < before - 0.02


@every
def test_gradients_are_clipped(name: str) -> None:
    """Descent of rate one moves a network by no more than the largest norm allowed, in each of its steps."""
    algorithm = build(name, clip=1e-3)
    before = parameters(algorithm)
    run(algorithm, descents(algorithm, 1.0), range(TURNS))
    moved = torch.cat([(a - b).flatten() for a, b in zip(parameters(algorithm), before, strict=True)]).norm()
    assert 0 < moved <= 1e-3 * TURNS * K


@every
def test_all_but_six_can_be_captured_and_distributed(name: str) -> None:
    """Penalties know the number of domains, so that none of them has to read labels back."""
    algorithm = build(name)
    assert algorithm.capturable == algorithm.distributed == (name not in ALONE)
    penalty = getattr(algorithm, "penalty", None)
    assert penalty is None or (penalty.num_domains, penalty.validate) == (K, None)


@every
def test_a_wrapped_network_takes_the_place_of_the_network(name: str) -> None:
    plain, wrapped = build(name), build(name)
    inner = wrapped.network
    wrapped.network = nn.Sequential(inner)
    run(plain, plain.optimizers(), range(TURNS))
    run(wrapped, wrapped.optimizers(), range(TURNS))
    for mine, its in zip(inner.parameters(), plain.network.parameters(), strict=True):
        assert torch.equal(mine, its)


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
    before = torch.cat([parameter.flatten() for parameter in parameters(algorithm)])
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


@every
@pytest.mark.cpu_bfloat16
def test_a_step_with_a_network_in_bfloat16_is_about_the_same(name: str) -> None:
    full, half = moves(name, half=False), moves(name, half=True)
    # AND-Mask drops an entry whose gradient's sign is not certain in eight bits.
    tolerance = 0.5 if name == "andmask" else 0.05
    assert 0 < (half - full).norm() < tolerance * full.norm()
