"""Folders of small images are trained, used and embedded without a pretrained encoder."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import momentalign
from momentalign.cli import app
from momentalign.data import ImageFiles, load_dataset
from momentalign.encoders import MNIST_CNN, Pixels, build_encoder, encoder_from_config
from momentalign.tables import read_table
from momentalign.training import evaluate, make_config
from tests.encoders.models import write_images

pytest.importorskip("PIL", reason="needs the vision extra")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("images"), 6, size=12)


def command(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None:
        raise result.exception
    return result.output


def test_a_folder_is_trained_evaluated_loaded_and_embedded(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = ("--test-domain", "night", "--steps", 25, "--set", "batch_size=4", "--device", "cpu", "--out", out)
    assert f"evaluate {out} {folder} --skip-bad-files" in command("train", folder, *options, "--skip-bad-files")
    model = momentalign.load(out)
    assert isinstance(model.network.encoder, MNIST_CNN)
    files = sorted((folder / "night").rglob("*.png"))
    predicted = model.predict(files)
    right = [name == path.parent.name for name, path in zip(predicted, files, strict=True)]
    assert sum(right) > 9  # colours tell the classes apart
    scores = evaluate(out, str(folder))
    assert {score.domain for score in scores} >= {"day", "night"}
    command("embed", folder, "--encoder", out, "-o", tmp_path / "trained.parquet")
    assert read_table(tmp_path / "trained.parquet").features.shape == (24, 32)


def test_pixels_are_the_default_features(folder: Path, tmp_path: Path) -> None:
    command("embed", folder, "-o", tmp_path / "pixels.parquet")
    table = read_table(tmp_path / "pixels.parquet")
    data = load_dataset(folder)
    assert table.features.shape == (24, 3 * 12 * 12)
    files = data.split("day", "in").inputs
    assert isinstance(files, ImageFiles)
    expected = (files.decode(0, 12).flatten() / 255).numpy()
    assert [row for row in table.features.to_numpy() if abs(row - expected).max() < 1e-6]
    command("embed", folder, "--encoder", "pixels?size=4", "-o", tmp_path / "small.parquet")
    assert read_table(tmp_path / "small.parquet").features.shape == (24, 48)


def test_sizes_and_settings(folder: Path, tmp_path: Path) -> None:
    data = load_dataset(folder)
    assert (data.image_side, data.training_recipe) == (12, "mnist")
    config = make_config(str(folder), test_domains=["night"])
    assert (config.hparams["lr"], config.hparams["batch_size"], config.record_every) == (1e-3, 64, 100)
    assert make_config(str(folder), encoder="hf:some/model").hparams["lr"] == 5e-5
    encoder = build_encoder("mnist-cnn?size=20", data)
    again = encoder_from_config(encoder.config())
    for each in (encoder, again):
        assert isinstance(each, MNIST_CNN)
        assert (each.in_channels, each.width, each.preprocessing.config()) == (3, 64, {"kind": "pixels", "size": 20})
    assert isinstance(encoder_from_config(build_encoder("pixels", data).config()), Pixels)
    large = write_images(tmp_path / "large", 5, size=70)
    config = make_config(str(large), encoder="mnist-cnn?size=16")
    assert (config.hparams["lr"], config.encoder) == (1e-3, "mnist-cnn?size=16")
    assert build_encoder("pixels", load_dataset(large)).num_features == 3 * 16 * 16


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "{large}"), "has no default encoder. Choose one, .* or 'mnist-cnn\\?size=32' for a small network"),
        (("train", "{folder}", "--workers", "-1"), "'--workers' should be at least 0"),
        (("embed", "{large}"), "large has no default encoder, .* Choose one"),
        (
            ("embed", "colored-digits", "--encoder", "mnist-cnn"),
            "should have trained weights, but those of mnist-cnn are",
        ),
        (
            ("train", "{folder}", "--encoder", "mnist-cnn?size=4"),
            "takes images of 8 × 8 at least, not 'mnist-cnn\\?size=4'",
        ),
        (("train", "{folder}", "--encoder", "mnist-cnn?side=4"), "should have only a size after '\\?'"),
        (
            ("train", "{folder}", "--encoder", "mlp"),
            "Encoder 'mlp' takes rows of numbers, or images as tensors, but the rows are image files",
        ),
        (("embed", "colored-digits", "--encoder", "pixels?size=4"), "'\\?size=' sets the size of image files, but"),
    ],
)
def test_errors_are_one_line(words: tuple[str, ...], message: str, folder: Path, tmp_path: Path) -> None:
    large = write_images(tmp_path / "large", 1, size=70)
    places = {"folder": folder, "large": large}
    with pytest.raises(ValueError, match=message) as error:
        command(*(word.format(**places) for word in words), "--out", tmp_path / "out.parquet")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out.parquet").exists()
