import warnings

import pytest
import torch
from torch import nn

from momentalign.algorithms import ERM, Network, find_algorithm
from momentalign.data import DomainDataset, Split
from momentalign.penalties import CMA, GradientMatching, HessianMatching, MomentAlignment
from momentalign.published import VIT_SMALL
from momentalign.training import augmentation_note, make_config, preset_note
from tests.training.problems import three_domains

ALIGNMENT = ("cma", "cma-momentum", "gradient-matching", "hessian-matching", "moment-alignment")


def pictures(classes: list[str], name: str = "pictures") -> DomainDataset:
    """Two domains of bytes, as large as photographs."""
    rows = {
        part: Split(torch.zeros(4, 3, 96, 96, dtype=torch.uint8), torch.arange(4) % len(classes))
        for part in ("in", "out")
    }
    return DomainDataset(name, len(classes), {"a": rows, "b": rows}, classes)


@pytest.mark.parametrize("algorithm", ALIGNMENT)
def test_safe_weights_are_relative_and_small(algorithm: str) -> None:
    spec = find_algorithm(algorithm)
    assert spec.has_space("safe")
    assert set(spec.space("image", 10, "safe")) == {*spec.space("image", 10), "momentum"}
    for seed in range(20):
        config = make_config(three_domains(), algorithm, preset="safe", hparams_seed=seed)
        weights = [value for name, value in config.hparams.items() if name.endswith("_weight")]
        assert weights
        assert all(0.01 <= weight <= 1 for weight in weights) if seed else set(weights) == {0.1}
        low, high = (0.9, 0.98) if algorithm == "cma-momentum" else (0.0, 0.0)
        assert low <= config.hparams["momentum"] <= high
        assert (config.hparams["scaling"], config.hparams["anneal_steps"], config.preset) == ("relative", 0, "safe")


@pytest.mark.parametrize("algorithm", ALIGNMENT)
def test_safe_hyperparameters_reach_the_penalty(algorithm: str) -> None:
    config = make_config(three_domains(), algorithm, preset="safe", hparams={"momentum": 0.9})
    built = find_algorithm(algorithm).build(Network(nn.Flatten(), 64, 2), 2, config.hparams)
    assert isinstance(built, ERM)
    assert isinstance(built.penalty, CMA | GradientMatching | HessianMatching | MomentAlignment)
    assert (built.penalty.scaling, built.penalty.momentum, built.penalty.anneal_steps) == ("relative", 0.9, 0)
    assert set(built.penalty.weights.values()) == {0.1}


def test_auto_is_published_where_the_paper_has_weights() -> None:
    assert make_config("colored-digits", "cma").preset == "published"
    assert make_config("colored-digits", "cma", preset="safe").preset == "safe"
    photos = pictures(["dog", "cat"], "pacs")
    assert make_config(photos, "cma", encoder=VIT_SMALL).preset == "published"
    assert make_config(photos, "cma", encoder="hf:mobilenet").preset == "safe"
    assert make_config(pictures(["dog", "cat"]), "cma", encoder=VIT_SMALL).preset == "safe"
    assert make_config(photos, "cma", encoder="hf:mobilenet", preset="published").hparams["gradient_weight"] == 5000
    assert make_config("rotated-digits", "cma").preset == "published"
    assert make_config("rotated-digits", "cma", encoder="mlp").preset == "safe"


def test_other_algorithms_have_one_search_space() -> None:
    runs = [make_config(three_domains(), "coral", preset=preset, hparams_seed=1) for preset in ("safe", "published")]
    assert runs[0] == runs[1]
    assert "preset" not in runs[0].to_dict()


def test_what_is_set_stands_in_a_preset() -> None:
    config = make_config(three_domains(), "cma", hparams={"scaling": "classes", "gradient_weight": 500})
    assert (config.hparams["scaling"], config.hparams["gradient_weight"]) == ("classes", 500)


def test_weights_of_published_size_are_noticed_with_relative_scaling() -> None:
    with pytest.warns(UserWarning, match=r"collapse the features: gradient_weight 5000\. .*--preset published"):
        make_config(three_domains(), "cma", hparams={"gradient_weight": 5000})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_config(three_domains(), "cma", hparams={"gradient_weight": 5000}, preset="published")


def test_notes_say_what_was_chosen_and_why() -> None:
    config = make_config(three_domains(), "cma")
    assert preset_note(config) == (
        "Preset safe for cma: relative scaling, because the paper has no weights for three; --preset published takes "
        "the paper's."
    )
    assert preset_note(config, "safe") == "Preset safe for cma: relative scaling."
    averaged = make_config(three_domains(), "cma-momentum")
    assert preset_note(averaged, "safe") == "Preset safe for cma-momentum: relative scaling and momentum 0.95."
    assert preset_note(make_config("colored-digits", "cma")) is None
    digits = make_config(pictures([str(k) for k in range(10)]), encoder="hf:vit")
    note = augmentation_note(digits)
    assert note is not None
    assert note.startswith("Images are not flipped")
    assert augmentation_note(digits, "no-flip") is None


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (["dog", "cat"], "domainbed"),
        ([str(k) for k in range(10)], "no-flip"),
        (list("abcdefghijk"), "no-flip"),
        (["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"], "no-flip"),
        (["0", "1"], "domainbed"),  # more often numbered classes than digits
    ],
)
def test_digits_and_letters_are_not_flipped(classes: list[str], expected: str) -> None:
    assert make_config(pictures(classes), encoder="hf:vit").augment == expected
    assert make_config(pictures(classes), encoder="hf:vit", augment="none").augment == "none"


def test_augmentation_concerns_images_only() -> None:
    assert make_config(three_domains(), augment="none") == make_config(three_domains())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "secure"}, "'preset' should be one of 'auto', 'published', 'safe', 'released', but is 'secure'"),
        ({"augment": "flip"}, "'augment' should be one of 'auto', 'domainbed', 'no-flip', 'none', but is 'flip'"),
    ],
)
def test_bad_values(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_config(three_domains(), "cma", **options)  # type: ignore[arg-type]
