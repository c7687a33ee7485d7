import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from momentalign.algorithms import Network, find_training_recipe
from momentalign.encoders import TensorPreprocessing
from momentalign.runs import Record, read_records
from momentalign.theory import moment_gaps
from momentalign.training import load_run, run
from momentalign.training._batch_moments import batch_moments
from momentalign.training._data import open_rows
from momentalign.training._steps import Sampler, Training, training_pools
from tests.training.problems import assert_same_weights, small_config, three_domains

pytestmark = pytest.mark.slow


def gaps_of(records: list[Any], step: int) -> dict[str, float]:
    return {r["metric"]: r["value"] for r in records if r["step"] == step and r["metric"].startswith("batch_moment")}


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe of small images asks for them too."""
    recipe = dataclasses.replace(find_training_recipe("mnist"), batch_moments=True)
    monkeypatch.setattr("momentalign.training._loop.find_training_recipe", lambda name: recipe)


def test_gaps_are_those_of_the_steps_rows(asking: None, tmp_path: Path) -> None:
    data = three_domains()
    run(small_config(data), tmp_path / "run", data=data)
    model = load_run(tmp_path / "run")
    features, domains = [], []
    for key, name in enumerate(("a", "b")):
        rows = Sampler([torch.arange(24)], [key], 8, trial=0).block(0)[19]
        with torch.no_grad():
            features.append(model.features_and_logits(data.split(name, "in").tensor[rows])[0])
        domains += [name] * 8
    expected = moment_gaps(torch.cat(features).numpy(), domains)
    found = gaps_of(read_records(tmp_path / "run"), 19)
    assert found["batch_moment_gap_1"] == pytest.approx(expected.average_mean, rel=1e-5)
    assert found["batch_moment_gap_2"] == pytest.approx(expected.average_covariance, rel=1e-5)


def test_they_are_recorded_where_the_recipe_asks_and_training_does_not_change(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    data = three_domains()
    config = small_config(data, hparams={"dropout": 0.5})
    run(config, tmp_path / "without", data=data)
    request.getfixturevalue("asking")
    run(config, tmp_path / "with", data=data)
    assert not gaps_of(read_records(tmp_path / "without"), 19)
    assert gaps_of(read_records(tmp_path / "with"), 19)
    assert_same_weights(tmp_path / "with", tmp_path / "without")


def moments_of(network: Network, *, pool: bool = False) -> Callable[[int], list[Record]]:
    data = three_domains()
    preprocessing = TensorPreprocessing((1, 8, 8))
    rows = open_rows(data, preprocessing, torch.device("cpu"))
    pools = training_pools(rows, data.names, "in", pool=pool)
    sampler = Sampler(pools, list(range(len(pools))), 8, trial=0)
    training = Training(SimpleNamespace(), {}, SimpleNamespace(), rows, sampler, preprocessing, 0, 0, 0)  # type: ignore[arg-type]
    fabric = SimpleNamespace(autocast=nullcontext)
    return partial(batch_moments, fabric, network, training)


def test_training_mode_without_a_trace() -> None:
    """Dropout is on, the same for the same step; statistics of batch normalisation stay as they were."""
    network = Network(nn.Sequential(nn.BatchNorm2d(1), nn.Flatten()), 64, 2, dropout=0.5)
    moments = moments_of(network)
    before = {name: buffer.clone() for name, buffer in network.named_buffers()}
    first, again, later = gaps_of(moments(3), 3), gaps_of(moments(3), 3), gaps_of(moments(4), 4)
    for name, buffer in network.named_buffers():
        assert torch.equal(buffer, before[name])
    assert first == again != later
    network.dropout.p = 0.0
    assert gaps_of(moments(3), 3)["batch_moment_gap_2"] < first["batch_moment_gap_2"]


def test_nothing_to_compare() -> None:
    network = Network(nn.Flatten(), 64, 2)
    assert moments_of(network, pool=True)(0) == []
    network.encoder.register_forward_hook(lambda *inputs: inputs[-1] * torch.nan)
    assert moments_of(network)(0) == []
