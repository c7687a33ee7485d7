"""Image folders and texts through encoders of the real architectures, tiny and random, from data to a used model."""

import shutil
from pathlib import Path

import pytest
import torch

import momentalign
from momentalign.data import load_dataset
from momentalign.encoders import build_encoder
from momentalign.runs import read_records, read_run
from momentalign.training import _data, evaluate, make_config, run
from momentalign.training._data import DatasetRows
from tests.encoders.models import save_model, text_dataset, write_images
from tests.training.problems import assert_same_weights, cut_at, numbers, weights

pytestmark = pytest.mark.slow

SMALL = {"batch_size": 4}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("images"), per_class=5)


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("vit")
    save_model("vit", folder)
    return str(folder)


@pytest.mark.parametrize("name", ["vit", "clip", "mobilenet_v2", "dinov2"])
def test_vision_encoders_train_and_are_of_use(name: str, images: Path, tmp_path: Path) -> None:
    save_model(name, tmp_path / name)
    config = make_config(str(images), "cma", steps=2, hparams=SMALL, encoder=f"hf-config:{tmp_path / name}")
    run(config, tmp_path / "run", workers=0, accelerator="cpu")
    recorded = {
        (r["domain"], r["split"]): r["value"]
        for r in read_records(tmp_path / "run")
        if r["step"] == 1 and r["metric"] == "accuracy"
    }
    scores = {(s.domain, s.split): s.value for s in evaluate(tmp_path / "run", images, workers=0) if s.split}
    assert scores == {key: pytest.approx(value) for key, value in recorded.items() if key in scores}
    model = momentalign.load(tmp_path / "run")
    paths = sorted((images / "day").rglob("*.png"))
    named = model.predict(paths, batch_size=3)
    assert len(named) == len(paths)
    assert set(named) <= {"cat", "dog"}


def test_images_that_are_decoded_once_give_the_same_run(
    images: Path, vit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config(str(images), "cma", steps=3, hparams=SMALL, encoder=vit)
    run(config, tmp_path / "read", workers=0, accelerator="cpu")
    monkeypatch.setattr(_data, "_fits", lambda parts, device, **_: bool(parts))  # as on a GPU
    monkeypatch.setattr(DatasetRows, "read", None)
    run(config, tmp_path / "kept", accelerator="cpu")
    assert_same_weights(tmp_path / "read", tmp_path / "kept")


def test_workers_and_resuming_change_nothing(images: Path, vit: str, tmp_path: Path) -> None:
    config = make_config(str(images), "fishr", steps=6, record_every=2, hparams=SMALL, encoder=vit)
    run(config, tmp_path / "alone", workers=0, accelerator="cpu")
    run(config, tmp_path / "helped", workers=2, accelerator="cpu")
    assert_same_weights(tmp_path / "alone", tmp_path / "helped")
    with cut_at(4):
        run(config, tmp_path / "cut", workers=0, accelerator="cpu", checkpoint_every=1)
    run(config, tmp_path / "cut", workers=0, accelerator="cpu")
    assert_same_weights(tmp_path / "alone", tmp_path / "cut")
    assert numbers(tmp_path / "alone") == numbers(tmp_path / "cut")


@pytest.mark.parametrize("prefix", ["", "hf-config:"])
def test_batch_norm_of_a_run_that_was_cut(prefix: str, images: Path, tmp_path: Path) -> None:
    model = save_model("resnet", tmp_path / "resnet")
    spec = f"{prefix}{tmp_path / 'resnet'}"
    config = make_config(str(images), steps=4, record_every=2, hparams=SMALL, encoder=spec)
    run(config, tmp_path / "whole", workers=0, accelerator="cpu")
    with cut_at(3):
        run(config, tmp_path / "cut", workers=0, accelerator="cpu", checkpoint_every=1)
    run(config, tmp_path / "cut", workers=0, accelerator="cpu")
    assert_same_weights(tmp_path / "whole", tmp_path / "cut")
    trained = weights(tmp_path / "cut")
    for name, tensor in model.named_buffers():
        if "running" in name:
            assert torch.equal(trained[f"encoder.model.{name}"], tensor) == (prefix == ""), name


def test_augmentation_is_for_training_only(images: Path, vit: str, tmp_path: Path) -> None:
    config = make_config(str(images), steps=1, hparams={**SMALL, "lr": 0.0, "dropout": 0.0}, encoder=vit)
    run(config, tmp_path / "run", workers=0, accelerator="cpu")
    rows = load_dataset(images).split("day", "in")
    model = momentalign.load(tmp_path / "run")
    raw = model.preprocessing.open(rows.inputs)
    with torch.no_grad():
        found = model(torch.stack([raw[k] for k in range(len(rows))])).argmax(1)  # type: ignore[index]
    accuracy = (found == rows.targets).double().mean().item()
    records = {(r["domain"], r["split"], r["metric"]): r["value"] for r in read_records(tmp_path / "run")}
    assert records["day", "in", "accuracy"] == pytest.approx(accuracy)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_unreadable_image_is_named(workers: int, images: Path, vit: str, tmp_path: Path) -> None:
    folder = shutil.copytree(images, tmp_path / "images")
    (folder / "night" / "dog" / "3.png").write_bytes(b"not an image")
    config = make_config(str(folder), steps=1, hparams=SMALL, encoder=vit)
    with pytest.raises(ValueError, match=r"3.png should be an image, but cannot be read .*'--skip-bad-files'") as found:
        run(config, tmp_path / "run", workers=workers, accelerator="cpu")
    assert len(str(found.value).splitlines()) == 1
    assert "3.png" in read_run(tmp_path / "run")["error"]
    with pytest.warns(UserWarning, match=r"1 unreadable file skipped: night/dog/3.png"):
        run(config, tmp_path / "run", workers=workers, accelerator="cpu", skip_bad_files=True)
    assert read_run(tmp_path / "run")["status"] == "finished"


@pytest.mark.parametrize("algorithm", ["erm", "cma"])
def test_texts_train_as_published_and_the_encoder_is_read_again(algorithm: str, tmp_path: Path) -> None:
    save_model("bert", tmp_path / "bert")
    data = text_dataset(rows=12)
    config = make_config(data, algorithm, hparams=SMALL, encoder=f"hf-config:{tmp_path / 'bert'}")
    assert config.steps == (18 if algorithm == "erm" else 9)  # three times 24 rows
    run(config, tmp_path / "run", data=data, accelerator="cpu")
    levels = {(r["split"], r["metric"]) for r in read_records(tmp_path / "run") if r["domain"] is None}
    assert {("train", "worst_group_accuracy"), ("test", "worst_group_accuracy"), ("test", "accuracy")} <= levels
    model = momentalign.load(tmp_path / "run")
    assert set(model.predict(["A man sleeps.", "No woman runs."])) <= {"x", "y", "z"}
    encoder = build_encoder(str(tmp_path / "run"), data)
    ours, theirs = encoder.state_dict(), model.network.encoder.state_dict()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())
