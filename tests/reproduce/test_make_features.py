"""Probe recipes from the data's folders to the table, as people type them: real formats, small real architectures."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from momentalign.cli import app
from momentalign.probing import GROUP_METHODS, make_probe_config, run_probe
from momentalign.report import accuracy_table
from momentalign.reproduce import ProbingRecipe, find_recipe, make_features
from momentalign.selection import read_runs
from tests.encoders.hub import Hub
from tests.encoders.models import save_model
from tests.reproduce.folders import SPLITS, write_celeba, write_multinli, write_waterbirds

# Torch's own, when forward mode loads.
pytestmark = [pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"), pytest.mark.slow]

MOMENTALIGN = Path(sys.executable).with_name("momentalign")
PUBLISHED = {"waterbirds": "90.11 / 86.16", "celeba": "77.87 / 74.16", "multinli": "81.30 / 69.72"}


class World:
    """A data folder, and a hub with the paper's models as dwarfs."""

    def __init__(self, folder: Path, hub: Hub) -> None:
        self.folder, self.hub, self.out = folder, hub, folder / "runs" / "reproduce-small"

    def type(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run a command as people do, in a process of its own: the hub's address is read when it starts."""
        settings = {"HF_ENDPOINT": self.hub.address, "HF_HOME": str(self.folder / "cache"), "COLUMNS": "150"}
        settings |= {"MOMENTALIGN_DATA": str(self.folder / "data"), "OMP_NUM_THREADS": "1"}
        settings |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        command = [str(MOMENTALIGN), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, cwd=self.folder, env=os.environ | settings)

    def reproduce(self, *words: object) -> str:
        """The same in this process, where no hub can be reached; an error is raised."""
        common = ["--scale", "small", "--device", "cpu", "--root", self.folder / "data", "--out", self.out]
        settings = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(self.folder / "empty"), "COLUMNS": "150"}
        found = CliRunner().invoke(app, ["reproduce", *map(str, [words[0], *common, *words[1:]])], env=settings)
        if found.exception is not None:
            raise found.exception
        return found.output


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("reproduce")
    for write in (write_waterbirds, write_celeba, write_multinli):
        write(folder / "data")
    save_model("clip", folder / "clip")
    save_model("bert", folder / "bert")
    models = {"openai/clip-vit-base-patch32": {"main": folder / "clip"}, "bert-base-uncased": {"main": folder / "bert"}}
    with Hub(models, {}) as hub:
        yield World(folder, hub)


@pytest.fixture(scope="module")
def done(world: World) -> str:
    """What all three sets in one command print."""
    found = world.type("reproduce", "probing", "--scale", "small", "--device", "cpu")
    assert (found.returncode, found.stderr) == (0, ""), found.stdout
    return found.stdout


def test_the_command_ends_in_tables_with_published_numbers(world: World, done: str) -> None:
    for name, numbers in PUBLISHED.items():
        assert f"\n{name}: test accuracy in %, converged solver" in done
        (line,) = [line for line in done.splitlines() if line.startswith("CMA") and numbers in line]
        frame = pd.read_csv(world.out / f"{name}-converged.csv", index_col="method")
        assert f"{100 * frame.loc['cma', 'worst_group']:.2f}" in line
        assert set(frame.index) == {"erm", "erm-balanced", "coral", "fishr", "hgp", "cma", *GROUP_METHODS}
    assert "features by hf:openai/clip-vit-base-patch32, at most 100 rows" in done
    assert "features by hf:bert-base-uncased, fine-tuned first" in done
    assert "Small scale" in done


@pytest.mark.parametrize("name", PUBLISHED)
def test_features_say_what_they_are_of(world: World, done: str, name: str, tmp_path: Path) -> None:
    path = world.out / "features" / f"{name}-small.parquet"
    frame = pd.read_parquet(path)
    sizes = frame.groupby(["split", "group"]).size()
    assert {split: set(sizes[split]) for split in ("train", "val", "test")} == {"train": {6}, "val": {4}, "test": {4}}
    assert len(sizes) == 3 * (6 if name == "multinli" else 4)
    assert frame["domain"].nunique() == 2
    assert len([column for column in frame if column.startswith("x")]) == (16 if name == "multinli" else 12)
    # A sweep's probe on the file finds the published numbers by what the file says, whatever the recipe.
    config = make_probe_config(path, "erm-balanced")
    run_probe(config, tmp_path / config.hash())
    table = accuracy_table(read_runs(tmp_path), "worst-group").to_text()
    assert f"{name}-small (probe): test accuracy" in table
    assert {"waterbirds": "84.58 ± 0.20", "celeba": "72.22 ± 0.39", "multinli": "68.82 ± 0.64"}[name] in table
    encoder = "runs/reproduce-small/multinli-small-encoder" if name == "multinli" else "hf:openai/clip-vit-base-patch32"
    assert f"According to its file the features are of {name}, by {encoder}." in table
    assert str(world.folder) not in table


def test_what_is_done_is_found_again_without_the_hub(world: World, done: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world.folder)
    again = world.reproduce("multinli", "--out", world.out.relative_to(world.folder))
    assert "multinli: uses the features in runs/reproduce-small/features/multinli-small.parquet." in again
    table = done[done.index("multinli: test accuracy") : done.rindex("Saved the table")]
    assert len(table.splitlines()) > 6
    assert table in again


def test_a_figure_takes_the_features_that_a_table_left(world: World, done: str) -> None:
    output = world.reproduce("celeba-hessian")
    assert f"celeba: uses the features in {world.out / 'features' / 'celeba-small.parquet'}." in output
    assert "celeba-small" in (world.out / "celeba-hessian.html").read_text()
    assert list((world.out / "figures" / "celeba-hessian").glob("terms-celeba-small.svg"))


@pytest.mark.parametrize(("name", "model"), [("waterbirds", "clip"), ("multinli", "bert")])
def test_features_by_another_encoder_are_refused(world: World, done: str, name: str, model: str) -> None:
    with pytest.raises(ValueError, match=r"hf:(openai|bert)") as refused:
        world.reproduce(name, "--encoder", world.folder / model)
    assert str(world.folder / model) in str(refused.value)
    assert "emove" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_features_of_another_set_are_refused(world: World, done: str) -> None:
    path = world.out / "features" / "celeba-small.parquet"
    refused = world.type("reproduce", "waterbirds", "--scale", "small", "--features", path)
    assert "should hold features of waterbirds, but holds features of celeba" in refused.stderr


def test_a_broken_image_is_named_or_left_out(world: World, tmp_path: Path) -> None:
    folder = write_waterbirds(tmp_path)
    broken = sorted(folder.rglob("*.jpg"))[3]
    broken.write_bytes(b"no image")
    words = ("waterbirds", "--root", tmp_path, "--out", tmp_path / "out", "--encoder", world.folder / "clip")
    with pytest.raises(ValueError, match=rf"{broken} should be an image, .*'--skip-bad-files'"):
        world.reproduce(*words)
    output = world.reproduce(*words, "--skip-bad-files")
    assert f"Note: waterbirds: 1 unreadable file skipped: {broken.relative_to(folder)}." in output
    rows = pd.read_parquet(tmp_path / "out" / "features" / "waterbirds-small.parquet")
    assert len(rows) == 4 * sum(SPLITS.values()) - 1


def test_the_public_code_s_encoder_of_each_seed_is_its_best_by_worst_group(world: World, tmp_path: Path) -> None:
    words = ("multinli", "--preset", "released", "--out", tmp_path, "--encoder", world.folder / "bert")
    output = world.reproduce(*words)
    assert "fine-tuned first on each of 2 seeds" in output
    assert "multinli-released: test accuracy in %, sgd solver" in output
    assert "MultiNLI's published ±" not in output
    frames = [
        pd.read_parquet(tmp_path / "features" / f"multinli-released-small{more}.parquet") for more in ("", "-seed1")
    ]
    assert (frames[0]["x0"] != frames[1]["x0"]).any()
    kept = [json.loads((path / "run.json").read_text())["weights"] for path in sorted(tmp_path.glob("*-encoder"))]
    assert [one["keep"] for one in kept] == ["worst-group"] * 2
    frame = pd.read_csv(tmp_path / "multinli-released-sgd.csv", index_col="method")
    assert set(frame.index) == {"erm", "erm-balanced", "coral", "fishr", "hgp-product", "cma"} | {
        "balanced",
        "groupdro-groups",
    }


def test_small_takes_the_first_rows_of_each_group(world: World, tmp_path: Path) -> None:
    recipe = find_recipe("celeba", "small")
    assert isinstance(recipe, ProbingRecipe)
    options = {"root": world.folder / "data", "encoder": str(world.folder / "clip")}
    path = make_features(replace(recipe, rows=3), "celeba", tmp_path, **options)  # type: ignore[arg-type]
    frame = pd.read_parquet(path)
    sizes = frame.groupby(["split", "group"]).size()
    assert set(sizes) == {3}
    assert len(sizes) == 12
    assert sorted(frame["file"])[0].endswith("000001.jpg")
