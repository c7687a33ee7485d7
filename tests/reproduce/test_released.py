"""Recipes as the public code runs them."""

from dataclasses import replace
from pathlib import Path

import pytest

from momentalign.reproduce import (
    ProbingRecipe,
    SweepRecipe,
    differences,
    features_path,
    find_recipe,
    plan_of,
    probe_table,
    recipe_names,
    sweep_commands,
)
from tests.probing.problems import spurious_data, write_csv

RECIPES = [name for name in recipe_names() if name != "costs"]


def test_cma_is_the_diagonal_one_with_the_public_code_s_annealing(tmp_path: Path) -> None:
    recipe = find_recipe("baselines", "small", "released")
    assert isinstance(recipe, SweepRecipe)
    assert recipe.name == "baselines-released"
    assert "cma-diagonal" in recipe.algorithms
    assert "cma" not in recipe.algorithms
    runs = plan_of(recipe).runs
    defaults = {run.algorithm: run.hparams for run in runs if run.hparams_seed == 0}
    assert defaults["cma-diagonal"]["anneal_steps"] == defaults["vrex"]["anneal_steps"] == 0
    assert defaults["fishr"]["anneal_steps"] == 90  # 1500 of 5001 steps
    assert {run.preset for run in runs if run.algorithm in ("cma-diagonal", "vrex")} == {"released"}
    published = {run.hash() for run in plan_of(find_recipe("baselines", "small")).runs}
    shared = {run.algorithm for run in runs if run.hash() in published}
    assert shared == set(recipe.algorithms) - {"cma-diagonal", "vrex"}
    (command,) = sweep_commands(recipe, tmp_path, None)
    assert "--preset released" in command


def test_hgp_has_the_centre_of_its_released_code_in_both_presets() -> None:
    for preset in ("published", "released"):
        runs = plan_of(find_recipe("hgp", "small", preset).without(("vlcs", "pacs", "terra-incognita"))).runs
        assert {run.hparams["center"] for run in runs if run.algorithm == "hgp"} == {"product"}


@pytest.mark.parametrize("name", RECIPES)
def test_remaining_differences_are_listed(name: str) -> None:
    published, released = (differences(find_recipe(name, preset=preset)) for preset in ("published", "released"))
    assert published
    assert released
    assert published != released
    assert all(line.endswith(".") for line in (*published, *released))
    assert differences(find_recipe("costs")) == []


def test_differences_are_about_the_recipe() -> None:
    digits, images, baselines = (
        " ".join(differences(find_recipe(name))) for name in ("colored-mnist", "pacs", "baselines")
    )
    assert "random crops" in images
    assert "random crops" not in digits
    assert "SelfReg" in baselines
    assert "VREx" not in digits
    texts, pictures = (" ".join(differences(find_recipe(name))) for name in ("multinli", "celeba"))
    assert "BERT" in texts
    assert "BERT" not in pictures
    assert "ViT-B/16" in pictures


def test_encoders() -> None:
    recipe = find_recipe("probing", preset="released")
    assert isinstance(recipe, ProbingRecipe)
    assert recipe.encoder("celeba") == "hf:timm/vit_base_patch16_clip_384.openai_ft_in1k"
    assert recipe.encoder("multinli") == "hf:bert-base-uncased"


def test_probes_are_those_of_the_public_code() -> None:
    recipe = find_recipe("multinli", preset="released")
    assert isinstance(recipe, ProbingRecipe)
    assert "hgp-product" in recipe.methods
    assert "hgp" not in recipe.methods
    assert (recipe.solver, recipe.encoders("multinli"), recipe.encoders("celeba")) == ("sgd", 5, 1)
    paths = {features_path(recipe, "multinli", Path("out"), seed).name for seed in range(3)}
    assert paths == {f"multinli-released{more}.parquet" for more in ("", "-seed1", "-seed2")}
    described = find_recipe("multinli")
    assert (described.solver, described.encoders("multinli")) == ("converged", 1)


def test_the_foot_says_what_the_published_errors_are_over(tmp_path: Path) -> None:
    data = spurious_data(classes=3)
    path = write_csv(data, tmp_path / "features.csv")
    for preset, said in (("published", True), ("released", False)):
        recipe = replace(find_recipe("multinli", "small", preset), papers=("erm-balanced",), figure=True)
        paths = [path] * recipe.encoders("multinli")
        text = str(probe_table(recipe, "multinli", paths))
        assert ("published ± is over five fine-tunings" in text) == said
        assert "81.15 / 68.82" in text


def test_bad_presets() -> None:
    with pytest.raises(ValueError, match="'--preset' should be published or released, but is 'safe'"):
        find_recipe("pacs", preset="safe")
    with pytest.raises(ValueError, match="Recipe 'costs' measures both routes of the paper and has no '--preset rel"):
        find_recipe("costs", preset="released")
