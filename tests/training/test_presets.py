import warnings
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from momentalign.algorithms import ERM, Network, find_algorithm
from momentalign.cli import app
from momentalign.data import DomainDataset, Split
from momentalign.penalties import CMA, GradientMatching, HessianMatching, MomentAlignment
from momentalign.published import VIT_SMALL
from momentalign.training import augmentation_note, make_config, preset_notes
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
    runs = [make_config(three_domains(), name, hparams_seed=seed) for name in ("erm", *ALIGNMENT) for seed in range(3)]
    (note,) = preset_notes(runs)
    assert all(name in note for name in (*ALIGNMENT, "no weights for three", "close to ERM", "--preset published"))
    assert "erm" not in note
    assert not any("no weights" in note for note in preset_notes(runs, "safe"))  # it was asked for
    stronger = make_config(three_domains(), "cma", hparams={"gradient_weight": 30.0})
    assert not any("close to ERM" in note for note in preset_notes([stronger]))
    assert preset_notes([make_config("colored-digits", "cma")]) == []
    digits = make_config(pictures([str(k) for k in range(10)]), encoder="hf:vit")
    note = augmentation_note(digits) or ""
    assert note.startswith("Images are not flipped")
    assert augmentation_note(digits, "no-flip") is None


@pytest.mark.parametrize("algorithm", ["cma", "cma-momentum"])
def test_the_command_says_that_safe_weights_do_little(algorithm: str, tmp_path: Path) -> None:
    rows = {"x": range(60), "y": [*"ab"] * 30, "domain": [*"rst"] * 20}
    pd.DataFrame(rows).to_csv(tmp_path / "rows.csv", index=False)
    common = [str(tmp_path / "rows.csv"), "--steps", "4", "-o", str(tmp_path / "runs")]
    sweep = ["sweep", *common, "--algorithms", f"erm,{algorithm}", "--trials", "1", "--hparams", "2", "--no-baselines"]
    for words in (["train", *common, "--algorithm", algorithm, "--dry-run"], [*sweep, "--jobs", "1"]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        (line,) = [line for line in done.output.splitlines() if line.startswith("Preset safe")]
        assert algorithm in line
        assert "close to ERM" in line
    table = CliRunner().invoke(app, ["table", str(tmp_path / "runs")])
    output = " ".join(table.output.split())  # notes are wrapped
    assert f"{find_algorithm(algorithm).label} ran with the safe preset" in output
    assert "--preset published" in output


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
