"""The command, on data small enough to take seconds."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from momentalign.cli import app, main
from momentalign.probing import GROUP_METHODS
from momentalign.reproduce import SweepRecipe
from tests.sweep.engines import Here

pytestmark = pytest.mark.slow


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["reproduce", *map(str, arguments)], env={"COLUMNS": "200"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


@pytest.fixture
def features(tmp_path: Path) -> Path:
    """Two domains, two classes, four groups, three splits."""
    rng = np.random.default_rng(0)
    y, domain = rng.integers(2, size=240), rng.integers(2, size=240)
    X = rng.normal(size=(240, 4)) + y[:, None] + 0.5 * domain[:, None]
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(4)])
    frame = frame.assign(y=y, domain=np.array(["land", "water"])[domain], group=2 * y + domain)
    frame["split"] = np.resize(["train", "train", "val", "test"], 240)
    path = tmp_path / "features.parquet"
    frame.to_parquet(path)
    return path


def test_list() -> None:
    code, output = run("--list")
    assert code == 0
    for name in ("domainbed", "celeba-hessian", "costs", "1,260"):
        assert name in output


def test_missing_data_are_named_with_the_command(tmp_path: Path) -> None:
    code, output = run("pacs", "--root", tmp_path, "--out", tmp_path / "out")
    assert code == 2
    assert f"momentalign data fetch pacs --root {tmp_path}" in output
    assert "240 runs" in output
    assert "Differences from the published runs:\n- All algorithms of a trial see the same data" in output
    assert not (tmp_path / "out").exists()
    code, output = run("celeba", "--root", tmp_path, "--dry-run")
    assert code == 0
    assert "celeba is missing" in output


def test_a_dry_run_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = SweepRecipe("colored-mnist", "One.", ("colored-digits",), ("erm", "cma"), hparams=1, trials=1, steps=2)
    monkeypatch.setattr("momentalign.reproduce.find_recipe", lambda *arguments: recipe)
    monkeypatch.setattr("momentalign.sweep.LocalEngine.submit", lambda *_: pytest.fail("a process was started"))
    code, output = run("colored-mnist", "--out", tmp_path / "out", "--device", "cpu", "--dry-run")
    assert code == 0
    assert " runs: colored-digits; erm, cma." in output
    assert "Nothing was run." in output
    assert not list(tmp_path.iterdir())


def test_a_missing_package_of_reports_is_known_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("Reports need altair, which is not installed.")

    recipe = SweepRecipe("colored-mnist", "One.", ("colored-digits",), ("erm",), hparams=1, trials=1, steps=2)
    monkeypatch.setattr("momentalign.reproduce.find_recipe", lambda *arguments: recipe)
    monkeypatch.setattr("momentalign.cli._reproduce.make_engine", lambda *_, **__: pytest.fail("it would train"))
    monkeypatch.setattr("momentalign.report.require", missing)
    with pytest.raises(ModuleNotFoundError, match="Reports need altair"):
        run("colored-mnist", "--out", tmp_path / "out", "--device", "cpu")
    assert not list(tmp_path.iterdir())


def test_a_small_table_from_its_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = SweepRecipe("colored-mnist", "One.", ("colored-digits",), ("erm",), hparams=1, trials=1, steps=2)
    monkeypatch.setattr("momentalign.reproduce.find_recipe", lambda *arguments: recipe)
    monkeypatch.setattr("momentalign.cli._reproduce.make_engine", lambda *_, **__: Here())
    out = tmp_path / "out"
    code, output = run("colored-mnist", "--out", out, "--jobs", 1, "--device", "cpu")
    assert code == 0, output
    assert "3 runs" in output
    assert "colored-digits: test accuracy in %, oracle selection" in output
    assert "training-domain selection" in output
    assert (out / "colored-mnist.html").exists()
    # Run again, it has nothing left to do and shows the same.
    code, again = run("colored-mnist", "--out", out, "--jobs", 1, "--device", "cpu")
    assert "0 of them are left to do." in again


def test_failed_runs_are_reported_and_retried_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    algorithms = ("erm", "tests.sweep.algorithms:Raises")
    recipe = SweepRecipe("one", "One.", ("colored-digits",), algorithms, hparams=1, trials=1, steps=2)
    monkeypatch.setattr("momentalign.reproduce.find_recipe", lambda *arguments: recipe)
    monkeypatch.setattr("momentalign.cli._reproduce.make_engine", lambda *_, **__: Here())
    words = ("one", "--out", tmp_path, "--jobs", 1, "--device", "cpu")
    for more in ((), ("--retry-failed",)):
        code, output = run(*words, *more)
        assert code == 1, output
        advice = "" if more else " Add --retry-failed to the same command to retry them."
        assert output.endswith(f"3 runs failed.{advice}\n")
        assert "Failed, 3 of 6 runs (RuntimeError: no such luck (" in output
        left = "3 of them are left to do." if more else "On 1 process"
        assert left in output


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own, when forward mode loads
def test_a_probe_s_table_with_the_published_beside(tmp_path: Path, features: Path) -> None:
    code, output = run("waterbirds", "--scale", "small", "--features", features, "--out", tmp_path / "out")
    assert code == 0, output
    assert "90.11 / 86.16" in output
    frame = pd.read_csv(tmp_path / "out" / "waterbirds-converged.csv", index_col="method")
    assert set(frame.index) == {"erm", "erm-balanced", "coral", "fishr", "hgp", "cma", *GROUP_METHODS}
    assert frame.loc["cma", "seeds"] == 2
    assert (tmp_path / "out" / "waterbirds-converged-grid.csv").exists()


def test_the_figure_of_penalty_and_worst_group(tmp_path: Path, features: Path) -> None:
    out = tmp_path / "out"
    code, output = run("celeba-hessian", "--scale", "small", "--features", features, "--out", out)
    assert code == 0, output
    assert (out / "celeba-hessian.html").exists()
    names = {path.suffix for path in (out / "figures" / "celeba-hessian").glob("terms-*")}
    assert names == {".png", ".svg", ".pdf"}


def test_costs_are_the_benchmark_s(tmp_path: Path) -> None:
    code, output = run("costs", "--dry-run", "--device", "cpu", "--out", tmp_path)
    assert code == 0
    assert "training step, OfficeHome (65)" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Name a recipe"),
        (["pcas"], "Did you mean 'pacs'?"),
        (["pacs", "--scale", "huge"], "'--scale' should be full or small"),
        (["probing", "--features", "x.parquet"], "Name one."),
        (["celeba", "--preset", "released", "--solver", "converged"], "'--preset released' probes by SGD"),
        (["celeba", "--preset", "safe"], "'--preset' should be published or released"),
        (["celeba", "--features", "nowhere.parquet"], "nowhere.parquet does not exist"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["momentalign", "reproduce", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
