from pathlib import Path

import pytest

from momentalign.algorithms import find_algorithm
from momentalign.data import dataset_names
from momentalign.probing import GROUP_METHODS, find_method, recipe_for
from momentalign.published import published_accuracy, published_averages, published_probing
from momentalign.reproduce import (
    ProbingRecipe,
    SweepRecipe,
    find_recipe,
    missing_data,
    recipe_names,
)


def test_every_table_and_figure_has_a_recipe() -> None:
    assert recipe_names() == (
        "domainbed",
        "colored-mnist",
        "rotated-mnist",
        "vlcs",
        "pacs",
        "terra-incognita",
        "baselines",
        "hgp",
        "vlcs-moments",
        "probing",
        "waterbirds",
        "celeba",
        "multinli",
        "celeba-hessian",
        "costs",
    )


@pytest.mark.parametrize("name", recipe_names())
@pytest.mark.parametrize("scale", ["full", "small"])
def test_names_in_recipes_exist(name: str, scale: str) -> None:
    recipe = find_recipe(name, scale)
    assert recipe.name == name
    assert recipe.what.endswith(".")
    if isinstance(recipe, SweepRecipe):
        assert set(recipe.datasets) <= set(dataset_names())
        for algorithm in recipe.algorithms:
            find_algorithm(algorithm)
    elif isinstance(recipe, ProbingRecipe):
        for method in recipe.methods:
            find_method(method)
        for dataset in recipe.datasets:
            recipe_for(dataset)


def test_the_main_table_takes_the_paper_s_1260_runs() -> None:
    assert find_recipe("domainbed").runs == 1260


def test_recipes_cover_all_published_numbers() -> None:
    def algorithms(*names: str) -> set[str]:
        return {algorithm for name in names for algorithm in find_recipe(name).algorithms}

    for rule in ("oracle", "training-domain"):
        for dataset in find_recipe("domainbed").datasets:
            extra = ("baselines",) if "mnist" in dataset else ()
            assert set(published_accuracy(rule, dataset)) <= algorithms(dataset, "hgp", *extra)
        assert set(published_averages(rule)) <= algorithms("domainbed", "hgp")
        assert set(published_averages(rule, baselines=True)) == algorithms("baselines")
    for dataset in find_recipe("probing").datasets:
        assert set(published_probing(dataset)) | {"erm", *GROUP_METHODS} == set(find_recipe(dataset).methods)


def test_small_needs_no_download_for_the_digits() -> None:
    recipe = find_recipe("baselines", "small")
    assert isinstance(recipe, SweepRecipe)
    assert recipe.datasets == ("colored-digits", "rotated-digits")
    assert recipe.runs == 9 * 9 * 2
    assert missing_data(recipe) == []


def test_what_is_missing_comes_with_the_command(tmp_path: Path) -> None:
    missing = missing_data(find_recipe("domainbed"), tmp_path)
    assert [one.dataset for one in missing] == list(find_recipe("domainbed").datasets)
    assert missing[0].command == f"momentalign data fetch mnist --root {tmp_path}"
    assert str(missing[2]).startswith("vlcs is missing (3.6 GB). Fetch it with: momentalign data fetch vlcs")
    assert missing_data(find_recipe("costs"), tmp_path) == []


def test_images_take_the_paper_s_encoder_and_digits_their_own() -> None:
    recipe = find_recipe("domainbed")
    assert recipe.encoder("pacs") == "hf:timm/vit_small_patch16_224.augreg_in21k"
    assert recipe.encoder("colored-mnist") is None


@pytest.mark.parametrize(
    ("name", "scale", "message"),
    [
        ("colored-mnits", "full", "There is no recipe 'colored-mnits'. Did you mean 'colored-mnist'?"),
        ("pacs", "tiny", "'--scale' should be full or small, but is 'tiny'."),
    ],
)
def test_wrong_names(name: str, scale: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        find_recipe(name, scale)
