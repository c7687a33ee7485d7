"""Encoders by what people type, and from the folders of runs."""

import json
import warnings
from pathlib import Path

import pytest
import torch

from momentalign._model_file import MODEL, read_model, write_model
from momentalign.data import ColoredDigits, DomainDataset, Split
from momentalign.encoders import (
    MLP,
    MNIST_CNN,
    Encoder,
    HuggingFaceVision,
    build_encoder,
    encoder_from_config,
    encoder_from_run,
    is_small_network,
    is_untrained,
)
from momentalign.training import load_run, make_config, run
from tests.encoders.models import image_dataset, save_model, text_dataset

pytestmark = pytest.mark.slow


def tensors(*shape: int) -> DomainDataset:
    rows = Split(torch.rand(4, *shape), torch.tensor([0, 1, 0, 1]))
    return DomainDataset("rows", 2, {"a": {"in": rows}, "b": {"in": rows}})


def save_run(encoder: Encoder, folder: Path) -> None:
    """The checkpoint of a run, as training writes it."""
    network = torch.nn.ModuleDict({"encoder": encoder, "head": torch.nn.Linear(encoder.num_features, 2)})
    folder.mkdir()
    (folder / "run.json").touch()
    write_model(folder / MODEL, network.state_dict(), {"encoder": encoder.config(), "classes": ["0", "1"]})


@pytest.mark.parametrize(("shape", "width"), [((2, 8, 8), 16), ((1, 28, 28), 64)])
def test_default_for_small_images(shape: tuple[int, ...], width: int) -> None:
    for spec in (None, "mnist-cnn"):
        encoder = build_encoder(spec, tensors(*shape))
        assert isinstance(encoder, MNIST_CNN)
        assert (encoder.in_channels, encoder.width) == (shape[0], width)


def test_untrained_networks() -> None:
    specs = ("mlp", "mnist-cnn", "mnist-cnn?size=32", "pixels", "pixels?size=8", "hf:mlp", "runs/mlp")
    assert [spec for spec in specs if is_untrained(spec)] == ["mlp", "mnist-cnn", "mnist-cnn?size=32"]


def test_default_for_tables() -> None:
    for spec in (None, "mlp"):
        encoder = build_encoder(spec, tensors(13))
        assert isinstance(encoder, MLP)
        assert encoder(torch.zeros(3, 13)).shape == (3, encoder.num_features)


def test_images_and_texts_need_a_name(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"animals has no default encoder. Choose one, for instance '--encoder hf:google"
    ):
        build_encoder(None, image_dataset(tmp_path, size=70))
    with pytest.raises(ValueError, match=r"pairs has no default encoder. Choose one, for instance '--encoder hf:bert"):
        build_encoder(None, text_dataset())


def test_folders_with_and_without_prefix(tmp_path: Path) -> None:
    save_model("resnet", tmp_path / "model")
    data = image_dataset(tmp_path / "images")
    for spec in (str(tmp_path / "model"), f"hf:{tmp_path / 'model'}"):
        encoder = build_encoder(spec, data)
        assert isinstance(encoder, HuggingFaceVision)
        assert (encoder.source, encoder.preprocessing.size, encoder.notes) == (spec, 32, ())
    assert build_encoder(f"{tmp_path / 'model'}?size=48", data).preprocessing.size == 48


@pytest.mark.parametrize("kind", ["", "hf:", "hf-config:"])
def test_a_folder_in_the_data_folder_is_named_from_there(kind: str, tmp_path: Path) -> None:
    data = image_dataset(tmp_path / "images")
    name = f"{kind}models/small?size=48"
    save_model("resnet", tmp_path / "one" / "models" / "small")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "models").symlink_to(tmp_path / "one" / "models")
    for root in (tmp_path / "one", tmp_path / "other"):
        for typed in (name, f"{kind}{root / 'models' / 'small'}?size=48"):
            assert make_config(data, encoder=typed, root=root).encoder == name
    assert build_encoder(name, data, root=tmp_path / "other").source == name
    outside = f"{kind}{tmp_path / 'one' / 'models' / 'small'}"
    assert make_config(data, encoder=outside, root=tmp_path / "images").encoder == outside


def test_a_run_finds_its_encoder_in_another_data_folder(tmp_path: Path) -> None:
    data = image_dataset(tmp_path / "images")
    for machine in ("one", "other"):
        save_model("resnet", tmp_path / machine / "models" / "small")
    config = make_config(
        data, encoder="models/small", root=tmp_path / "one", steps=2, hparams={"batch_size": 2}, augment="none"
    )
    with pytest.raises(ValueError, match="models/small"):
        run(config, tmp_path / "run", data=data, root=tmp_path)
    run(config, tmp_path / "run", data=data, root=tmp_path / "other")
    model = load_run(tmp_path / "run")
    assert model.network.encoder.source == "models/small"
    texts = [path.read_text() for path in (tmp_path / "run").rglob("*.json")]
    assert texts
    assert not [text for text in texts if str(tmp_path) in text]


def test_weights_are_random_only_on_request(tmp_path: Path) -> None:
    save_model("vit", tmp_path / "model")
    data = image_dataset(tmp_path / "images")
    trained, again = (build_encoder(f"hf:{tmp_path / 'model'}", data) for _ in range(2))
    torch.manual_seed(1)
    random = build_encoder(f"hf-config:{tmp_path / 'model'}", data)
    name = next(name for name in trained.state_dict() if name.endswith("fc1.weight") or "intermediate" in name)
    assert torch.equal(trained.state_dict()[name], again.state_dict()[name])
    assert not torch.allclose(trained.state_dict()[name], random.state_dict()[name])
    assert "The encoder's weights are random." in random.notes


def test_random_weights_follow_the_seed(tmp_path: Path) -> None:
    save_model("vit", tmp_path / "model")
    data = image_dataset(tmp_path / "images")
    states = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        states.append(
            torch.cat([p.flatten() for p in build_encoder(f"hf-config:{tmp_path / 'model'}", data).parameters()])
        )
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_the_encoder_of_a_run(tmp_path: Path) -> None:
    data = ColoredDigits()
    torch.manual_seed(0)
    encoder = build_encoder(None, data)
    save_run(encoder, tmp_path / "run")
    for again in (build_encoder(str(tmp_path / "run"), data), encoder_from_run(tmp_path / "run")):
        assert again.source == str(tmp_path / "run")
        images = torch.rand(3, 2, 8, 8)
        assert torch.equal(again(images), encoder(images))
    with pytest.raises(ValueError, match=r"does not fit rows. The encoder takes rows of shape \(2, 8, 8\)"):
        build_encoder(str(tmp_path / "run"), tensors(1, 28, 28))


def test_normalised_images_are_trained_as_they_are(tmp_path: Path) -> None:
    save_model("vit", tmp_path / "model")
    data = tensors(3, 32, 32)
    config = make_config(data, encoder=str(tmp_path / "model"), steps=2, hparams={"batch_size": 2})
    with pytest.warns(UserWarning, match="images of rows are floating-point numbers .* without augmentation") as said:
        records = run(config, None, data=data)
    assert len([warning for warning in said if "augmentation" in str(warning.message)]) == 1
    assert any(record["metric"] == "loss" for record in records)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build_encoder(None, data)  # a small network augments nothing in any case


def test_which_encoders_are_small_networks(tmp_path: Path) -> None:
    save_model("resnet", tmp_path / "model")
    save_run(MNIST_CNN(2, 16), tmp_path / "small")
    save_run(build_encoder(str(tmp_path / "model"), image_dataset(tmp_path / "images")), tmp_path / "large")
    assert all(is_small_network(spec) for spec in ("mnist-cnn", "mlp", str(tmp_path / "small"), f"hf:{tmp_path}/small"))
    others = ("hf:google/vit", "hf-config:/gone", str(tmp_path / "model"), str(tmp_path / "large"), str(tmp_path))
    assert not any(is_small_network(spec) for spec in others)
    (tmp_path / "small" / MODEL).write_text("{")
    assert not is_small_network(str(tmp_path / "small"))


def test_batch_norm_of_a_run_that_began_at_random_is_pretrained(tmp_path: Path) -> None:
    save_model("resnet", tmp_path / "model")
    encoder = build_encoder(f"hf-config:{tmp_path / 'model'}", image_dataset(tmp_path / "images"))
    save_run(encoder, tmp_path / "run")
    again = encoder_from_run(tmp_path / "run").train()
    pairs = zip(encoder.modules(), again.modules(), strict=True)
    norms = [(one, its) for one, its in pairs if isinstance(one, torch.nn.BatchNorm2d)]
    assert norms
    assert all(one.training and not its.training for one, its in norms)


def test_the_text_encoder_of_a_run_needs_no_other_files(tmp_path: Path) -> None:
    save_model("bert", tmp_path / "bert")
    data = text_dataset()
    encoder = build_encoder(str(tmp_path / "bert"), data).eval()
    save_run(encoder, tmp_path / "run")
    for path in (tmp_path / "bert").iterdir():
        path.unlink()
    again = build_encoder(str(tmp_path / "run"), data).eval()
    raw = again.preprocessing.open(data.split("a", "train").inputs)
    assert isinstance(raw, torch.Tensor)
    torch.testing.assert_close(again(raw), encoder(raw))


def test_runs_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    save_run(MNIST_CNN(2, 16), tmp_path / "run")
    path = tmp_path / "run" / MODEL
    tensors = read_model(path)[1]
    write_model(path, tensors, {"encoder": MNIST_CNN(2, 8).config()})
    with pytest.raises(ValueError, match=r"do not fit the encoder") as caught:
        encoder_from_run(tmp_path / "run")
    assert "\n" not in str(caught.value)
    write_model(path, tensors, {})
    with pytest.raises(ValueError, match="should describe an 'encoder'"):
        encoder_from_run(tmp_path / "run")
    path.unlink()
    with pytest.raises(ValueError, match="has no weights"):
        encoder_from_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mnist-cn", "There is no encoder 'mnist-cn'. .* Did you mean 'mnist-cnn'?"),
        ("google/vit-base", "should be a folder, but google/vit-base does not exist. Use 'hf:google"),
        ("hf:/no/such/folder", "should be a folder, but /no/such/folder does not exist"),
        ("hf-config:/no/such/folder", "should be a folder, but /no/such/folder does not exist"),
        ("hf:name?length=3", r"only a size after '\?', as in 'name\?size=112', but has 'length=3'"),
    ],
)
def test_unknown_names(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_encoder(spec, tensors(2, 8, 8))


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"should be a model in Hugging Face format, but has no config.json"):
        build_encoder(str(tmp_path), tensors(2, 8, 8))


def test_encoders_of_another_kind_of_rows_are_refused(tmp_path: Path) -> None:
    save_model("bert", tmp_path / "bert")
    save_model("vit", tmp_path / "vit")
    with pytest.raises(
        ValueError, match=r"does not fit animals. The encoder takes texts, but these rows are image files"
    ):
        build_encoder(str(tmp_path / "bert"), image_dataset(tmp_path / "images"))
    with pytest.raises(ValueError, match=r"does not fit pairs. The encoder takes image.*these rows are texts"):
        build_encoder(str(tmp_path / "vit"), text_dataset())
    with pytest.raises(ValueError, match=r"'\?size=' sets the size of images"):
        build_encoder(f"{tmp_path / 'bert'}?size=112", text_dataset())


@pytest.mark.parametrize("encoder", [MNIST_CNN(2, 16), MLP(5, width=7, depth=3)], ids=["cnn", "mlp"])
def test_comes_back_from_its_configuration(encoder: Encoder) -> None:
    again = encoder_from_config(json.loads(json.dumps(encoder.config())))
    again.load_state_dict(encoder.state_dict())
    inputs = torch.rand(3, 2, 8, 8) if isinstance(encoder, MNIST_CNN) else torch.rand(3, 5)
    assert torch.equal(again(inputs), encoder(inputs))
    assert again.preprocessing.config() == encoder.preprocessing.config()


def test_unknown_descriptions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'kind' of an encoder should be one of mnist-cnn, .*, but is 'made-up'"):
        encoder_from_config({"kind": "made-up"})
    with pytest.raises(ValueError, match=r"of a 'mlp' is incomplete .*in_features"):
        encoder_from_config({"kind": "mlp"})
    with pytest.raises(ValueError, match="'depth' should be at least 1, but is 0"):
        MLP(3, depth=0)
