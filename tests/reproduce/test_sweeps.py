from dataclasses import replace
from pathlib import Path

import pytest

from momentalign.reproduce import SweepRecipe, find_recipe, plan_of, results_of, sweep_commands
from momentalign.training import run


@pytest.fixture(scope="module")
def recipe() -> SweepRecipe:
    found = find_recipe("colored-mnist", "small")
    assert isinstance(found, SweepRecipe)
    return replace(found, algorithms=("erm", "cma"), hparams=1, steps=2)


def test_the_plan_has_the_recipe_s_runs(recipe: SweepRecipe) -> None:
    plan = plan_of(recipe)
    assert len(plan.runs) == recipe.runs == 6
    assert {config.algorithm for config in plan.runs} == {"erm", "cma"}
    assert {config.steps for config in plan.runs} == {2}
    assert plan.rules == ("oracle", "training-domain")
    assert plan.domains == {"colored-digits": ("+90%", "+80%", "-90%")}


def test_recipes_share_runs() -> None:
    main, baselines = (find_recipe(name, "small") for name in ("colored-mnist", "baselines"))
    one, other = ({config.hash() for config in plan_of(recipe).runs} for recipe in (main, baselines))
    assert one < other


def test_results_are_of_the_recipe_s_runs_alone(recipe: SweepRecipe, tmp_path: Path) -> None:
    for one in (recipe, replace(recipe, algorithms=("coral",))):
        for config in plan_of(one).runs[:2]:
            run(config, tmp_path / config.hash(), save=False)
    results = results_of(plan_of(recipe), tmp_path)
    assert set(results.runs["algorithm"]) <= {"erm", "cma"}
    assert len(results.runs) == 2
    assert (results.runs["status"] == "finished").all()


def test_the_same_sweep_commands(tmp_path: Path) -> None:
    recipe = find_recipe("domainbed")
    digits, images = sweep_commands(recipe, tmp_path, None)
    assert digits == (
        "momentalign sweep colored-mnist rotated-mnist --algorithms erm,coral,fishr,cma --trials 3 --hparams 5 "
        f"--preset published --no-weights --out {tmp_path}"
    )
    assert "vlcs pacs terra-incognita" in images
    assert "--encoder hf:timm/vit_small_patch16_224.augreg_in21k" in images
    (own,) = sweep_commands(
        recipe.without(("colored-mnist", "rotated-mnist")), tmp_path, "my models/mine", Path("my data")
    )
    assert "--root 'my data' --encoder 'my models/mine'" in own
    embedded, files = sweep_commands(recipe.small(), tmp_path, None, Path("my data"))
    assert ("--root" in embedded, "--root" in files) == (False, True)
