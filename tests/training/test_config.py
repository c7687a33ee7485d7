import dataclasses

import pytest
import torch

from momentalign.data import DomainDataset, Split, Texts
from momentalign.runs import RunConfig
from momentalign.training import make_config
from tests.training.problems import grouped, images, three_domains

CONFIG = RunConfig("colored-digits", "erm", ("-90%",), 0, 0, {"lr": 1e-3, "batch_size": 64}, 500, 100)


def test_the_hash_is_of_every_setting_and_of_no_machine() -> None:
    assert CONFIG.hash() == "ae994a29799c66aa"
    changed = {"hparams": {"lr": 1e-2, "batch_size": 64}, "trial": 1, "pool": True, "test_domains": ("+90%",)}
    hashes = {dataclasses.replace(CONFIG, **{name: value}).hash() for name, value in changed.items()}
    assert len(hashes | {CONFIG.hash()}) == len(changed) + 1


def test_defaults_are_the_protocols() -> None:
    config = make_config("rotated-digits", "cma", test_domains=["15"])
    assert (config.steps, config.record_every, config.hparams["batch_size"]) == (5001, 100, 64)
    assert (config.hparams["lr"], config.hparams["anneal_steps"], config.average) == (1e-3, 2500, "none")
    assert make_config("rotated-digits", "cma", steps=500).hparams["anneal_steps"] == 250


@pytest.mark.parametrize("algorithm", ["vrex", "fishr", "cma-momentum"])
@pytest.mark.parametrize("steps", [1, 7, 800])
def test_coloured_digits_have_a_recipe_of_their_own(algorithm: str, steps: int) -> None:
    config = make_config("colored-digits", algorithm, test_domains=["-90%"], steps=steps)
    assert (config.record_every, config.hparams["batch_size"], config.hparams["lr"]) == (40, 128, 2e-3)
    assert (config.hparams["anneal_steps"], config.average, config.preset) == (steps // 2, "sma", "published")
    assert make_config("colored-digits", algorithm).steps == 800


def test_what_is_set_stands_in_every_draw() -> None:
    drawn = [make_config("colored-digits", "cma", hparams_seed=k, hparams={"lr": 0.5}).hparams for k in (1, 2)]
    assert [hparams["lr"] for hparams in drawn] == [0.5, 0.5]
    assert drawn[0]["gradient_weight"] != drawn[1]["gradient_weight"]


def test_test_domains_are_put_in_order() -> None:
    first, second = (make_config(three_domains(), test_domains=names) for names in (["c", "a"], ["a", "c"]))
    assert first == second
    assert first.test_domains == ("a", "c")


def test_texts_are_fine_tuned_the_usual_way() -> None:
    rows = {part: Split(Texts(["a"] * 50), images(50, 0, 0).targets) for part in ("train", "val")}
    data = DomainDataset("sentences", 2, {"plain": rows, "negated": rows})
    config = make_config(data, "erm", encoder="hf:bert")
    expected = {"lr": 2e-5, "batch_size": 32, "optimizer": "adamw", "schedule": "linear", "clip": 1.0}
    assert {name: config.hparams[name] for name in expected} == expected
    assert config.pool
    assert config.steps == 10  # three times 100 rows, 32 at a time
    assert config.record_every == 4
    aligned = make_config(data, "cma", encoder="hf:bert")
    assert not aligned.pool
    assert aligned.steps == 5  # the same rows, 2 x 32 at a time
    with pytest.raises(ValueError, match=r"goes with 'erm'"):
        make_config(data, "cma", encoder="hf:bert", pool=True)
    with pytest.raises(ValueError, match=r"sentences has no default encoder"):
        make_config(data, "erm")


@pytest.mark.parametrize("shape", [(3, 32, 32), (3, 224, 224)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_a_pretrained_encoder_is_trained_as_on_images(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    rows = {part: Split(torch.zeros(4, *shape, dtype=dtype), torch.tensor([0, 1, 0, 1])) for part in ("in", "out")}
    expected = {"lr": 5e-5, "batch_size": 32, "dropout": 0.1}
    config = make_config(DomainDataset("photos", 2, {"a": rows, "b": rows}), encoder="hf:google/vit")
    assert {name: config.hparams[name] for name in expected} == expected
    assert config.record_every == 300
    chosen = make_config(DomainDataset("photos", 2, {"a": rows, "b": rows}, training_recipe="mnist"), encoder="hf:vit")
    assert (chosen.hparams["lr"], chosen.hparams["batch_size"], chosen.record_every) == (1e-3, 64, 100)


def test_a_small_network_on_small_colour_images_is_trained_as_on_digits() -> None:
    rows = {part: Split(torch.zeros(4, 3, 32, 32), torch.tensor([0, 1, 0, 1])) for part in ("in", "out")}
    for encoder in (None, "mnist-cnn"):
        config = make_config(DomainDataset("photos", 2, {"a": rows, "b": rows}), encoder=encoder)
        assert (config.hparams["lr"], config.hparams["batch_size"], config.record_every) == (1e-3, 64, 100)


def test_large_colour_images_need_an_encoder_of_their_own() -> None:
    rows = Split(torch.zeros(4, 3, 96, 96, dtype=torch.uint8), torch.tensor([0, 1, 0, 1]))
    with pytest.raises(
        ValueError, match=r"photos has no default encoder. Choose one, for instance '--encoder hf:google"
    ):
        make_config(DomainDataset("photos", 2, {"a": {"in": rows}, "b": {"in": rows}}))


def test_one_class_cannot_be_learned() -> None:
    rows = {part: Split(torch.zeros(4, 1, 8, 8), torch.zeros(4, dtype=torch.long)) for part in ("in", "out")}
    data = DomainDataset("same", 1, {"a": rows, "b": rows}, ("only",))
    with pytest.raises(ValueError, match=r"needs two classes at least, but same has 1"):
        make_config(data)


def test_a_string_is_no_list_of_names() -> None:
    with pytest.raises(TypeError, match=r"should be a list of names, but is the string 'c'. Write \['c'\]"):
        make_config(three_domains(), test_domains="c")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test_domains": ["d"]}, "'test_domain' should be one of 'a', 'b', 'c', but is 'd'"),
        ({"test_domains": ["a", "b", "c"]}, "All domains of three are test domains"),
        ({"algorithm": "ermm"}, "Did you mean 'erm'?"),
        ({"hparams": {"lrr": 1}}, "Did you mean 'lr'?"),
        ({"hparams": {"batch_size": 0}}, "'batch_size' should be at least 1"),
        ({"steps": 0}, "'steps' should be at least 1"),
        ({"record_every": 0}, "'record_every' should be at least 1"),
        ({"trial": -1}, "'trial' should be at least 0"),
        ({"holdout": 1.0}, "'holdout' should be at least 0 and below 1"),
        ({"precision": "16"}, "'precision' should be one of '32', 'bf16'"),
    ],
)
def test_bad_settings(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_config(three_domains(), **options)  # type: ignore[arg-type]


def test_numbers_are_no_classes() -> None:
    rows = Split(images(8, 0, 0).inputs, images(8, 0, 0).targets.float())
    with pytest.raises(ValueError, match=r"Use 'momentalign probe'"):
        make_config(DomainDataset("dose", 1, {"a": {"in": rows}, "b": {"in": rows}}))


def test_a_group_set_trains_on_all_domains() -> None:
    assert make_config(grouped()).test_domains == ()


@pytest.mark.parametrize("name", ["trial", "hparams_seed"])
def test_seeds_are_what_a_run_can_be_read_with(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' should be below 2"):
        make_config("colored-digits", "erm", **{name: 2**63})  # type: ignore[arg-type]
