from pathlib import Path

import pytest
import torch

import momentalign
from momentalign._model_file import MODEL, read_model, write_model
from momentalign.training import Predictor, run
from tests.training.problems import small_config, three_domains, weights


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    data = three_domains()
    run(small_config(data, hparams={"dropout": 0.5, "lr": 1e-2}), folder, data=data)
    return folder


def test_a_loaded_network_names_classes(trained: Path) -> None:
    model = momentalign.load(trained)
    assert isinstance(model, Predictor)
    assert isinstance(model, torch.nn.Module)
    assert model.classes == ("dark", "bright")
    assert not model.training
    rows = three_domains().split("a", "in")
    logits = model(rows.tensor)
    assert torch.equal(logits, model(rows.tensor))  # dropout is off
    assert model.predict(rows.tensor, batch_size=7) == [model.classes[k] for k in logits.argmax(1).tolist()]
    saved = weights(trained)
    assert all(torch.equal(tensor, saved[name]) for name, tensor in model.network.state_dict().items())


def test_a_tensor_model_takes_no_words(trained: Path) -> None:
    with pytest.raises(TypeError, match=r"'inputs' should be a tensor for this model"):
        momentalign.load(trained).predict(["a.png"])


def test_other_numbers_and_nothing_are_taken_too(trained: Path) -> None:
    model = momentalign.load(trained)
    rows = three_domains().split("a", "in").tensor
    assert model.predict(rows.double()) == model.predict(rows)
    assert model.predict([]) == []


@pytest.mark.parametrize("inputs", ["photo.jpg", Path("photo.jpg")])
def test_one_string_is_no_list(inputs: str | Path, trained: Path) -> None:
    with pytest.raises(
        TypeError, match=r"'inputs' should be a list, but is one string or path. Write \['photo.jpg'\]."
    ):
        momentalign.load(trained).predict(inputs)


def test_the_network_itself_takes_tensors(trained: Path) -> None:
    with pytest.raises(TypeError, match=r"The network takes tensors, but got a list. Use predict\(\)."):
        momentalign.load(trained)([1, 2])


def test_what_cannot_be_loaded(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"should be the folder of a run"):
        momentalign.load(tmp_path)
    (tmp_path / "run.json").write_text((trained / "run.json").read_text())
    with pytest.raises(ValueError, match=r"has no weights"):
        momentalign.load(tmp_path)
    about, tensors = read_model(trained / MODEL)
    write_model(tmp_path / MODEL, tensors, about | {"classes": [*about["classes"], "grey"]})
    with pytest.raises(ValueError, match=r"do not fit their description"):
        momentalign.load(tmp_path)
