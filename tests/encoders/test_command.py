"""`momentalign embed`."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from momentalign.cli import app
from momentalign.data import table_spec
from momentalign.tables import read_table
from momentalign.training import make_config
from momentalign.training import run as train
from tests.data.files import write_celeba, write_multinli, write_waterbirds
from tests.encoders.models import save_model, write_images

pytestmark = pytest.mark.slow


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["embed", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_images(tmp_path / "animals")
    save_model("resnet", tmp_path / "model", mean=None)
    return tmp_path


def test_writes_what_diagnose_reads(folder: Path) -> None:
    out = folder / "features.parquet"
    arguments = (folder / "animals", "--encoder", f"{folder / 'model'}?size=32", "-o", out, "--batch-size", 5)
    done = run(*arguments, "--dry-run")
    assert done.exit_code == 0, done.output
    assert "animals: 12 rows of 2 domains, 16 features" in done.output
    assert "normalised by the mean and standard deviation of ImageNet" in done.output
    assert not out.exists()
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    assert f"Next: momentalign diagnose {out}" in done.output.replace("\n", " ").replace("  ", " ")
    assert read_table(out).features.shape == (12, 16)
    assert not out.with_name("features.parquet.parts").exists()
    again = run(*arguments)
    assert "already" in again.output


def test_with_split(folder: Path) -> None:
    out = folder / "features.parquet"
    done = run(folder / "animals", "--encoder", f"{folder / 'model'}?size=32", "-o", out, "--with-split")
    assert done.exit_code == 0, done.output
    splits = read_table(out).splits
    assert splits is not None
    assert sorted(set(splits)) == ["in", "out"]


def test_a_table_by_the_names_of_its_columns(tmp_path: Path) -> None:
    rows = [f"{number},{'no' if number % 2 else 'yes'},{number % 3}" for number in range(30)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,label,site", *rows]))
    spec = table_spec(tmp_path / "rows.csv", target="label", domain="site")
    train(make_config(spec, "erm", hparams={"batch_size": 4}, steps=2), tmp_path / "run", accelerator="cpu")
    words = (tmp_path / "rows.csv", "--encoder", tmp_path / "run", "-o", tmp_path / "features.parquet")
    missing = run(*words)
    assert "should have columns 'y' (target) and 'domain' (domain)" in str(missing.exception)
    done = run(*words, "--target", "label", "--domain", "site")
    assert done.exit_code == 0, done.output
    assert set(read_table(tmp_path / "features.parquet").target) == {"no", "yes"}


@pytest.mark.filterwarnings("ignore:celeba|multinli:UserWarning")  # so few rows that some groups have none
@pytest.mark.parametrize(
    ("name", "write", "model", "rows", "first"),
    [
        ("waterbirds", write_waterbirds, "clip", 13, ("landbird", "land", "train", "landbird, land")),
        ("celeba", write_celeba, "clip", 6, ("blond", "female", "train", "blond, female")),
        ("multinli", write_multinli, "bert", 7, ("entailment", "no negation", "train", "entailment, no negation")),
    ],
)
def test_sets_with_groups(
    name: str, write: Callable[[Path], Path], model: str, rows: int, first: tuple[str, ...], tmp_path: Path
) -> None:
    write(tmp_path / "data")
    save_model(model, tmp_path / "model")
    out = tmp_path / "features.parquet"
    done = run(name, "--encoder", f"hf:{tmp_path / 'model'}", "--root", tmp_path / "data", "-o", out)
    assert done.exit_code == 0, done.output
    assert f"Next: momentalign probe {out}" in done.output.replace("\n", " ").replace("  ", " ")
    table = read_table(out)
    assert table.splits is not None
    assert table.groups is not None
    assert table.features.shape == (rows, 12 if model == "clip" else 16)
    assert (table.target[0], table.domains[0], table.splits[0], table.groups[0]) == first


@pytest.mark.parametrize("batch_size", [1, 64])  # with some rows done before the bad one, and without
def test_bad_files_are_skipped_on_request(batch_size: int, folder: Path) -> None:
    (folder / "animals" / "day" / "cat" / "1.png").write_bytes(b"no image")
    arguments = (folder / "animals", "--encoder", f"{folder / 'model'}?size=32", "-o", folder / "features.parquet")
    arguments += ("--batch-size", batch_size)
    refused = run(*arguments)
    assert isinstance(refused.exception, ValueError)
    assert "--skip-bad-files" in str(refused.exception)
    done = run(*arguments, "--skip-bad-files")  # the same place, as the message says
    assert done.exit_code == 0, done.output
    assert "Note: animals: 1 unreadable file skipped: day/cat/1.png" in done.output.replace("\n", " ")
    assert len(read_table(folder / "features.parquet").target) == 11


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "features.csv"), r"should end in .parquet"),
        (("--device", "abacus"), "that torch can use (cpu, cuda, cuda:1), but is 'abacus'. Use cpu."),
        (("--encoder", "mnist-cn"), "Did you mean 'mnist-cnn'"),
    ],
)
def test_bad_arguments(arguments: tuple[str, ...], message: str, folder: Path) -> None:
    done = run(folder / "animals", "--encoder", folder / "model", *arguments)
    assert isinstance(done.exception, ValueError)
    assert message.replace("\\", "") in str(done.exception)


def test_an_interruption_says_how_to_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from momentalign.encoders import Embedding

    whole = Embedding.run

    def interrupted(self: Embedding, progress) -> Path:
        def report(done: int, total: int) -> None:
            progress(done, total)
            if done:
                raise KeyboardInterrupt

        return whole(self, report)

    out = folder / "features.parquet"
    arguments = (folder / "animals", "--encoder", f"{folder / 'model'}?size=32", "-o", out, "--batch-size", 4)
    with monkeypatch.context() as patch:
        patch.setattr(Embedding, "run", interrupted)
        stopped = run(*arguments)
    assert stopped.exit_code == 130
    assert "Interrupted after 4 of 12 rows. Run the same command again to resume." in stopped.output.replace("\n", " ")
    done = run(*arguments)
    assert done.exit_code == 0
    assert "Resuming after 4 rows." in done.output.replace("\n", " ")
    assert len(read_table(out).target) == 12
