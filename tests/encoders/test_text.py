"""Text encoders: tokens, pooled output, and what comes back from a configuration."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from momentalign._model_file import MODEL, read_about
from momentalign.data import Texts
from momentalign.encoders import HuggingFaceText, TextPreprocessing, encoder_from_config, encoder_from_folder
from momentalign.training import make_config, run
from tests.encoders.models import VOCABULARY, save_model, save_tokenizer, text_dataset

pytestmark = pytest.mark.slow

PAIR = Texts(["A man sleeps."], ["Nobody runs."])


def tokens(*words: str) -> list[int]:
    return [VOCABULARY.index(word) for word in words]


def load(folder: Path) -> HuggingFaceText:
    encoder = encoder_from_folder(folder)
    assert isinstance(encoder, HuggingFaceText)
    return encoder.eval()


def test_a_pair_becomes_tokens_sentences_and_mask(tmp_path: Path) -> None:
    save_model("bert", tmp_path)
    raw = load(tmp_path).preprocessing.open(PAIR)
    assert raw.shape == (1, 3, 24)
    assert raw.dtype == torch.int32
    ids = tokens("[CLS]", "a", "man", "sleeps", ".", "[SEP]", "no", "##body", "runs", ".", "[SEP]")
    assert raw[0, 0].tolist() == ids + [0] * 13
    assert raw[0, 1].tolist() == [0] * 6 + [1] * 5 + [0] * 13
    assert raw[0, 2].tolist() == [1] * 11 + [0] * 13


def test_the_longer_sentence_is_cut_first(tmp_path: Path) -> None:
    save_model("bert", tmp_path)
    stored = load(tmp_path).preprocessing
    short = TextPreprocessing(stored.tokenizer, stored.padding, 8)
    raw = short.open(Texts(["a man"], ["no man runs . a woman sleeps ."]))
    assert raw[0, 0].tolist() == tokens("[CLS]", "a", "man", "[SEP]", "no", "man", "runs", "[SEP]")


def test_sentences_without_partner(tmp_path: Path) -> None:
    save_model("bert", tmp_path)
    raw = load(tmp_path).preprocessing.open(Texts(["a man", "unheard"]))
    assert raw[:, 0, :4].tolist() == [tokens("[CLS]", "a", "man", "[SEP]"), [*tokens("[CLS]", "[UNK]", "[SEP]"), 0]]
    assert raw[:, 1].sum() == 0


@pytest.mark.parametrize("name", ["bert", "distilbert"])
def test_features_are_the_stated_output_of_the_model(name: str, tmp_path: Path) -> None:
    model: Any = save_model(name, tmp_path)
    encoder = load(tmp_path)
    raw = encoder.preprocessing.open(Texts(["a man sleeps", "no"], ["a woman", "nobody runs"]))
    ids, sentences, mask = raw.long().unbind(1)
    if name == "bert":
        expected = model(ids, attention_mask=mask, token_type_ids=sentences).pooler_output
    else:
        expected = model(ids, attention_mask=mask).last_hidden_state[:, 0]
    torch.testing.assert_close(encoder(raw), expected)
    assert encoder.num_features == 16
    assert ("first token's" in " ".join(encoder.notes)) == (name == "distilbert")


def test_padding_does_not_matter(tmp_path: Path) -> None:
    save_model("bert", tmp_path)
    encoder = load(tmp_path)
    raw = encoder.preprocessing.open(PAIR)
    trimmed = encoder.preprocessing.trim(raw)
    assert trimmed.shape == (1, 3, 11)
    torch.testing.assert_close(encoder(trimmed), encoder(raw))


def test_the_second_sentence_is_told_apart(tmp_path: Path) -> None:
    save_model("bert", tmp_path)
    encoder = load(tmp_path)
    raw = encoder.preprocessing.open(PAIR)
    one_sentence = raw.clone()
    one_sentence[:, 1] = 0
    assert not torch.allclose(encoder(raw), encoder(one_sentence))


@pytest.mark.parametrize("name", ["bert", "distilbert"])
def test_comes_back_without_the_folder(name: str, tmp_path: Path) -> None:
    save_model(name, tmp_path)
    encoder = load(tmp_path)
    config = json.loads(json.dumps(encoder.config()))
    for path in tmp_path.iterdir():
        path.unlink()
    again = encoder_from_config(config).eval()
    again.load_state_dict(encoder.state_dict())
    raw = encoder.preprocessing.open(PAIR)
    assert torch.equal(again.preprocessing.open(PAIR), raw)
    torch.testing.assert_close(again(raw), encoder(raw))


def test_every_parameter_that_trains_reaches_the_features(tmp_path: Path) -> None:
    for name in ("bert", "distilbert"):
        save_model(name, tmp_path / name)
        encoder = load(tmp_path / name).train()
        encoder(encoder.preprocessing.open(PAIR)).square().sum().backward()
        assert all(parameter.grad is not None for parameter in encoder.parameters() if parameter.requires_grad)


def test_a_pooler_without_weights_is_not_used(tmp_path: Path) -> None:
    model = save_model("bert", tmp_path)
    transformers.BertForMaskedLM(model.config).save_pretrained(tmp_path)
    encoder = load(tmp_path)
    assert encoder.features == "cls"
    assert not any(p.requires_grad for name, p in encoder.named_parameters() if "pooler" in name)


def test_bert_base_from_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    save_tokenizer(tmp_path)
    encoder = encoder_from_folder(tmp_path, weights=False).eval()
    raw = encoder.preprocessing.open(PAIR)
    assert raw.shape == (1, 3, 128)  # the paper's length
    assert sum(parameter.numel() for parameter in encoder.parameters()) == 109_482_240  # as published
    with torch.no_grad():
        assert encoder(raw).shape == (1, 768)


def test_refuses_a_folder_without_tokenizer(tmp_path: Path) -> None:
    save_model("bert", tmp_path)
    for name in ("vocab.txt", "tokenizer_config.json"):
        (tmp_path / name).unlink()
    with pytest.raises(ValueError, match=r"should contain a tokenizer, but has none of tokenizer.json"):
        encoder_from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match="should contain a tokenizer, but it cannot be read") as caught:
        encoder_from_folder(tmp_path)
    assert "\n" not in str(caught.value)


def test_refuses_models_that_are_no_encoders(tmp_path: Path) -> None:
    transformers.T5Config(d_model=16, num_layers=1, num_heads=2, d_ff=16, d_kv=8).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="'t5', which is not a text encoder"):
        encoder_from_folder(tmp_path, weights=False)


def test_refuses_other_rows(tmp_path: Path) -> None:
    save_model("bert", tmp_path)
    with pytest.raises(ValueError, match=r"takes texts, but these rows are torch.float32 tensors"):
        load(tmp_path).preprocessing.open(torch.zeros(2, 3))


def test_a_run_stores_its_tokenizer_once(tmp_path: Path) -> None:
    save_model("bert", tmp_path / "bert")
    data = text_dataset()
    config = make_config(data, encoder=str(tmp_path / "bert"), steps=1, hparams={"batch_size": 2})
    run(config, tmp_path / "run", data=data, accelerator="cpu")
    assert json.dumps(read_about(tmp_path / "run" / MODEL)).count('"tokenizer":') == 1
