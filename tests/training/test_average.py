"""Averaged weights in a run: recorded beside the raw ones, saved, resumed, captured, the same on two ranks."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from momentalign._model_file import MODEL, read_about
from momentalign.algorithms import AVERAGES, Algorithm, algorithm_names
from momentalign.data import DomainDataset
from momentalign.runs import read_records, read_run
from momentalign.training import evaluate, make_config, run
from tests.training.problems import (
    assert_same_weights,
    capture_on_the_host,
    cut_at,
    grouped,
    images,
    numbers,
    small_config,
    three_domains,
    weights,
)

pytestmark = pytest.mark.slow

KINDS = AVERAGES[1:]


def metrics(folder: Path, step: int) -> dict[tuple[object, ...], float | None]:
    return {
        (r["domain"], r["split"], r.get("group"), r["metric"]): r["value"]
        for r in read_records(folder)
        if r["step"] == step
    }


def averaged_steps(folder: Path) -> list[int]:
    return sorted({r["step"] for r in read_records(folder) if r["metric"] == "averaged_accuracy"})


@pytest.mark.parametrize("kind", KINDS)
def test_averages_are_recorded_beside_the_same_raw_numbers(kind: str, tmp_path: Path) -> None:
    data = three_domains()
    run(small_config(data, average=kind), tmp_path / kind, data=data)
    run(small_config(data), tmp_path / "none", data=data)
    raw = [row for row in numbers(tmp_path / kind) if not str(dict(row)["metric"]).startswith("averaged_")]  # type: ignore[call-overload]
    assert raw == numbers(tmp_path / "none")
    last = metrics(tmp_path / kind, 19)
    for domain in "abc":
        for split in ("in", "out"):
            assert last[domain, split, None, "averaged_accuracy"] is not None
            averaged, own = (last[domain, split, None, f"{prefix}cross_entropy"] for prefix in ("averaged_", ""))
            assert averaged != own
    assert averaged_steps(tmp_path / kind)[-1] == 19


def test_the_saved_weights_are_the_mean_of_those_after_every_step(tmp_path: Path) -> None:
    data = three_domains()
    seen: list[dict[str, Tensor]] = []

    def watch(algorithm: Algorithm) -> None:
        optimizers = algorithm.optimizers

        def watched() -> dict[str, torch.optim.Optimizer]:
            made = optimizers()
            made["network"].register_step_post_hook(
                lambda *_: seen.append({k: t.double().clone() for k, t in algorithm.network.state_dict().items()})
            )
            return made

        algorithm.optimizers = watched  # type: ignore[method-assign]

    config = small_config(data, "cma", average="sma", hparams={"anneal_steps": 6})
    run(config, tmp_path / "run", data=data, built=watch)
    start = 6
    assert len(seen) == 20
    for name, tensor in weights(tmp_path / "run").items():
        if tensor.is_floating_point():
            mean = torch.stack([state[name] for state in seen[start:]]).mean(0)
            torch.testing.assert_close(tensor.double(), mean, rtol=1e-5, atol=1e-6)
    before = metrics(tmp_path / "run", 4)  # the average of no step yet is the network itself
    for split in ("in", "out"):
        assert before["a", split, None, "averaged_accuracy"] == before["a", split, None, "accuracy"]
        assert before["a", split, None, "averaged_cross_entropy"] == before["a", split, None, "cross_entropy"]


def test_every_method_of_a_set_with_a_boundary_is_averaged_from_there_on(tmp_path: Path) -> None:
    for name in ("erm", "vrex"):
        config = make_config("colored-digits", name, test_domains=["-90%"], steps=8, record_every=1)
        run(config, tmp_path / name, save=False)
        numbers = {step: metrics(tmp_path / name, step) for step in range(8)}
        keys = [("+90%", "out", None, f"{prefix}cross_entropy") for prefix in ("averaged_", "")]
        assert [step for step in range(8) if numbers[step][keys[0]] != numbers[step][keys[1]]] == [6, 7]


@pytest.mark.parametrize("kind", KINDS)
def test_evaluate_uses_the_averaged_weights_and_says_so(kind: str, tmp_path: Path) -> None:
    data = three_domains()
    run(small_config(data, average=kind, steps=9), tmp_path / "run", data=data)
    recorded = metrics(tmp_path / "run", 8)
    for score in evaluate(tmp_path / "run", data):
        if score.split and score.domain:
            assert score.value == recorded[score.domain, score.split, None, "averaged_accuracy"]
    expected = {"average": kind, "step": 8, "keep": "last"}
    assert read_run(tmp_path / "run")["weights"] == expected
    assert read_about(tmp_path / "run" / MODEL)["weights"] == expected


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_step_11_and_resumed(kind: str, tmp_path: Path) -> None:
    data = three_domains()
    config = small_config(data, "fishr", average=kind, record_every=2, hparams={"dropout": 0.3, "anneal_steps": 6})
    run(config, tmp_path / "whole", data=data)
    with cut_at(11, KeyboardInterrupt()):
        run(config, tmp_path / "cut", data=data, checkpoint_every=1)
    run(config, tmp_path / "cut", data=data)
    assert_same_weights(tmp_path / "cut", tmp_path / "whole")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")


@pytest.mark.parametrize("name", algorithm_names())
def test_every_algorithm_has_an_average(name: str, tmp_path: Path) -> None:
    data = three_domains()
    run(small_config(data, name, steps=4, average="sma"), tmp_path / "run", data=data)
    assert averaged_steps(tmp_path / "run")[-1] == 3


@pytest.mark.parametrize("kind", KINDS)
def test_captured_steps_average_the_same_weights(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture_on_the_host(monkeypatch)
    data = three_domains()
    config = small_config(data, "cma", average=kind, hparams={"lr": 2.0**-10, "anneal_steps": 5})
    for way in (True, False):
        run(config, tmp_path / str(way), data=data, accelerator="cpu", capture=way)
    assert_same_weights(tmp_path / "True", tmp_path / "False")
    assert numbers(tmp_path / "True") == numbers(tmp_path / "False")
    # Resumed, warming up starts from an average that is not empty.
    with cut_at(11, KeyboardInterrupt()):
        run(config, tmp_path / "cut", data=data, accelerator="cpu", capture=True, checkpoint_every=1)
    run(config, tmp_path / "cut", data=data, accelerator="cpu", capture=True)
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "False")


def test_groups_are_recorded_too(tmp_path: Path) -> None:
    data = grouped()
    run(small_config(data, average="ema", steps=4), tmp_path / "run", data=data)
    last = metrics(tmp_path / "run", 3)
    for metric in ("averaged_accuracy", "averaged_worst_group_accuracy"):
        assert (None, "test", None, metric) in last
    assert (None, "val", "lw", "averaged_group_accuracy") in last


def test_swad_needs_held_out_rows(tmp_path: Path) -> None:
    domains = {name: {"in": images(24, 0.0, k), "out": images(0, 0.0, k)} for k, name in enumerate("abc")}
    data = DomainDataset("three", 2, domains, ("dark", "bright"))
    with pytest.raises(
        ValueError, match=r"'--average swad' needs held-out rows of every training domain, but 'a' has none in"
    ):
        run(small_config(data, average="swad"), tmp_path / "run", data=data)
    assert not (tmp_path / "run").exists()


def test_a_default_does_not_change_the_hash() -> None:
    data = three_domains()
    plain = small_config(data)
    assert "average" not in plain.to_dict()
    averaged = small_config(data, average="sma")
    assert averaged.to_dict()["average"] == "sma"
    assert averaged.hash() != plain.hash()
