"""Averages of the weights of runs from one initialisation: uniform and greedy, as folders like those of runs."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from momentalign.cli import app
from momentalign.data import load_dataset, table_spec
from momentalign.runs import read_records, read_run
from momentalign.training import evaluate, load_run, make_config, make_soup, plan_soups, run
from tests.training.problems import weights

pytestmark = pytest.mark.slow

SETS = {"lr": (1e-3, 3e-3, 3e-2)}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sets of ERM on colored-digits, as a sweep leaves them, and one of IRM."""
    out = tmp_path_factory.mktemp("sweep")
    for algorithm, rates in (("erm", SETS["lr"]), ("irm", (1e-3,))):
        for number, lr in enumerate(rates):
            config = make_config(
                "colored-digits",
                algorithm,
                test_domains=["-90%"],
                hparams_seed=number,
                hparams={"batch_size": 16, "lr": lr},
                steps=12,
                record_every=6,
            )
            run(config, out / config.hash(), accelerator="cpu")
    return out


def mean_of(folders: Sequence[Path]) -> dict[str, Tensor]:
    loaded = [weights(folder) for folder in folders]
    return {
        name: torch.stack([one[name].double() for one in loaded]).mean(0).to(tensor.dtype)
        for name, tensor in loaded[0].items()
    }


def held_out_accuracy(folders: Sequence[Path]) -> float:
    """Mean over the training domains of the accuracy of the mean weights."""
    model = load_run(folders[0])
    model.network.load_state_dict(mean_of(folders))
    data, found = load_dataset("colored-digits", trial=0), []
    for domain in ("+90%", "+80%"):
        rows = data.split(domain, "out")
        with torch.no_grad():
            found.append((model(rows.tensor).argmax(1) == rows.targets).double().mean().item())
    return sum(found) / 2


def greedy_by_hand(folders: Sequence[Path]) -> list[Path]:
    alone = {folder: held_out_accuracy([folder]) for folder in folders}
    order = sorted(folders, key=lambda folder: (alone[folder], folders.index(folder)), reverse=True)
    chosen = order[:1]
    for folder in order[1:]:
        if held_out_accuracy([*chosen, folder]) >= held_out_accuracy(chosen):
            chosen.append(folder)
    return chosen


def test_uniform_and_greedy_soups(sweep: Path, tmp_path: Path) -> None:
    plans, problems = plan_soups(sweep)
    (plan,) = plans
    assert any("irm on colored-digits without -90%, trial 0: one run only" in line for line in problems)
    calls: list[tuple[int, int]] = []
    scores = make_soup(plan, tmp_path, accelerator="cpu", progress=lambda done, total: calls.append((done, total)))
    assert [score.name for score in scores] == ["best single run", "uniform soup", "greedy soup"]
    assert calls == [(k, 8) for k in range(1, 9)]
    best, uniform, greedy = scores
    folders = list(plan.folders.values())
    assert [plan.folders[name] for name in greedy.runs] == greedy_by_hand(folders)
    assert best.held_out == pytest.approx(max(held_out_accuracy([folder]) for folder in folders))
    assert greedy.held_out >= best.held_out
    assert sorted(uniform.runs) == sorted(plan.folders)
    for score in (uniform, greedy):
        expected = mean_of([plan.folders[name] for name in score.runs])
        for name, tensor in weights(score.folder).items():
            torch.testing.assert_close(tensor, expected[name], rtol=1e-6, atol=1e-7)
        about = read_run(score.folder)
        assert about["status"] == "finished"
        assert about["soup"]["runs"] == list(score.runs)
        recorded = {
            (r["domain"], r["split"]): r["value"]
            for r in read_records(score.folder)
            if r["metric"] == "accuracy" and r["step"] == 11
        }
        found = {(s.domain, s.split): s.value for s in evaluate(score.folder, "colored-digits") if s.domain and s.split}
        assert found == pytest.approx(recorded)
        assert score.held_out == pytest.approx((found["+90%", "out"] + found["+80%", "out"]) / 2)
        assert score.test == found["-90%", "in"]


def test_algorithms_are_mixed_on_demand(sweep: Path) -> None:
    plans, _ = plan_soups(sweep, mix=True)
    assert [(plan.algorithm, len(plan.folders)) for plan in plans] == [("all", 4)]


def test_the_command_prints_a_table_and_a_table_reads_its_folders(sweep: Path, tmp_path: Path) -> None:
    def invoke(*words: object) -> str:
        done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False, env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        return str(done.output)

    for _ in range(2):  # a second time it replaces what is there
        said = invoke("soup", sweep, "-o", tmp_path / "soup", "--device", "cpu")
    assert "3 runs in 1 group of one initialisation." in said
    assert "best single run" in said
    assert "greedy soup" in said
    assert f"Saved the soups to {tmp_path / 'soup'}. Next: momentalign evaluate {tmp_path / 'soup'}" in said
    assert len(list((tmp_path / "soup").iterdir())) == 2
    table = invoke("table", tmp_path / "soup", "--select", "training-domain")
    assert "ERM + uniform soup" in table


def changed(sweep: Path, out: Path, **settings: object) -> Path:
    """A copy of the sweep whose first run of ERM has other settings."""
    shutil.copytree(sweep, out)
    first = min(path for path in out.iterdir() if read_run(path)["config"]["algorithm"] == "erm")
    about = read_run(first)
    config = about["config"] | {key: value for key, value in settings.items() if key in about["config"]}
    about |= {key: value for key, value in settings.items() if key not in config}
    (first / "run.json").write_text(json.dumps(about | {"config": config}))
    return first


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder": "mlp"}, "should have one encoder"),
        ({"holdout": 0.5}, "should have one holdout"),
        ({"classes": ["cat", "dog"]}, "should have one list of classes"),
    ],
)
def test_several_initialisations_are_refused(
    settings: dict[str, object], message: str, sweep: Path, tmp_path: Path
) -> None:
    changed(sweep, tmp_path / "sweep", **settings)
    with pytest.raises(ValueError, match=message):
        plan_soups(tmp_path / "sweep")


def test_runs_without_weights_are_refused(sweep: Path, tmp_path: Path) -> None:
    first = changed(sweep, tmp_path / "sweep")
    (first / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"1 of 4 finished runs have none: .*run the sweep again without --no-weights"):
        plan_soups(tmp_path / "sweep")


def test_unfinished_and_diverged_runs_are_left_out(sweep: Path, tmp_path: Path) -> None:
    changed(sweep, tmp_path / "sweep", status="running")
    (plan,), _ = plan_soups(tmp_path / "sweep")
    assert len(plan.folders) == 2
    with (next(iter(plan.folders.values())) / "records.jsonl").open("a") as file:
        file.write('{"step": 11, "domain": null, "split": null, "metric": "loss", "value": null}\n')
    with pytest.raises(ValueError, match=r"needs two finished runs or more .* Run a sweep with --hparams 2 or more"):
        plan_soups(tmp_path / "sweep")


def test_a_table_is_named_by_its_path(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {"a": rng.normal(size=60), "label": np.tile(["no", "yes"], 30), "site": np.repeat(list("rst"), 20)}
    )
    rows.to_csv(tmp_path / "rows.csv", index=False)
    for number in range(2):
        config = make_config(
            table_spec(tmp_path / "rows.csv", target="label", domain="site"),
            "erm",
            test_domains=["s"],
            hparams_seed=number,
            hparams={"batch_size": 4},
            steps=2,
        )
        run(config, tmp_path / "runs" / config.hash(), accelerator="cpu")
    words = ["soup", str(tmp_path / "runs"), "-o", str(tmp_path / "soup"), "--device", "cpu"]
    done = CliRunner().invoke(app, words, catch_exceptions=False, env={"COLUMNS": "400"})
    assert done.exit_code == 0, done.output
    assert f"erm on {tmp_path / 'rows.csv'} without s, trial 0: accuracy, %" in done.output
    following = done.output.splitlines()[-1].partition("Next: momentalign ")[2].split()
    assert following[-1] == str(tmp_path / "rows.csv")
    done = CliRunner().invoke(app, [*following, "--device", "cpu"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
