import pytest

from momentalign.penalties import MomentAlignment
from momentalign.probing import METHODS, PROTOCOL_METHODS, find_method, method_grid, recipe_for


@pytest.mark.parametrize(
    ("method", "converged", "sgd"),
    [
        ("erm", 1, 1),
        ("coral", 1, 1),
        ("fishr", 20, 100),
        ("hgp", 45, 225),
        ("hutchinson", 45, 225),
        ("irm", 5, 25),
        ("vrex", 5, 25),
        ("groupdro", 1, 3),
        ("cma", 49, 245),
        ("gradient-matching", 7, 35),
    ],
)
def test_grids_have_the_published_sizes(method: str, converged: int, sgd: int) -> None:
    recipe = recipe_for("celeba")
    assert len(method_grid(method, "converged", recipe, train_rows=162_770)) == converged
    assert len(method_grid(method, "sgd", recipe, train_rows=162_770)) == sgd


@pytest.mark.parametrize(
    ("name", "cma", "fishr_set"),
    [
        ("waterbirds", (10, 1000, 2100), (100, 0.945, 2800)),
        ("celeba", (5000, 100, 4000), (10, 0.9225, 12000)),
        ("multinli", (5000, 1, 0), (1e4, 0.99, 600)),
    ],
)
def test_the_published_best_set_comes_first_and_once(
    name: str, cma: tuple[float, ...], fishr_set: tuple[float, ...]
) -> None:
    for method, expected in (("cma", cma), ("fishr", fishr_set)):
        grid = method_grid(method, "sgd", recipe_for(name), train_rows=5000)
        assert tuple(grid[0].values()) == expected
        assert grid.count(grid[0]) == 1
        assert set(grid[0]) == set(grid[1])


def test_steps_and_annealing() -> None:
    assert recipe_for("waterbirds").steps(4795) == 3000
    assert recipe_for("celeba").steps(162_770) == 16_300
    assert recipe_for("multinli").steps(206_175) == 1239
    assert recipe_for("celeba").anneal_grid(162_770) == (0, 4000, 8000, 12000, 16000)
    assert recipe_for("table").anneal_grid(1000) == (0, 24, 48, 72, 96)
    assert recipe_for("table").anneal_grid(0) == (0,)


def test_the_public_code_counts_evaluation_batches_and_has_more_weights() -> None:
    released, rows = recipe_for("waterbirds-released"), {"train_rows": 4795, "evaluation_rows": (1199, 5794)}
    for method in ("fishr", "hgp-product"):
        steps = {one["anneal_steps"] for one in method_grid(method, "sgd", released, **rows)}
        assert steps == {0, 280, 560, 840, 1120}
    assert method_grid("fishr", "sgd", released, **rows)[0] == {"weight": 100, "momentum": 0.945, "anneal_steps": 1120}
    grid = method_grid("cma", "sgd", released, **rows)
    assert tuple(grid[0].values()) == (10, 1000, 2100)  # its own counter has training steps alone
    assert len(grid) == 8 * 8 * 5
    assert {one["hessian_weight"] for one in grid} == {0.1, 1, 10, 100, 1000, 2000, 5000, 10000}
    texts = method_grid("cma", "converged", recipe_for("multinli-released"), train_rows=10)
    assert min(one["gradient_weight"] for one in texts) == 0
    # In the middle of an epoch's evaluation: the next training step.
    assert [released.training_step(count, **rows) for count in (0, 9, 10, 24, 25, 26)] == [0, 9, 10, 10, 10, 11]


@pytest.mark.parametrize(("name", "weight"), [("waterbirds", 0.1), ("celeba", 0.1), ("multinli", 0.0)])
def test_the_public_code_has_one_more_weight_and_the_same_steps(name: str, weight: float) -> None:
    paper, released = recipe_for(name), recipe_for(f"{name}-released")
    for hparam in ("gradient_weight", "hessian_weight"):
        grids = [method_grid("cma", "converged", recipe, train_rows=1000) for recipe in (paper, released)]
        first, second = ({one[hparam] for one in grid} for grid in grids)
        assert second - first == {weight}
        assert first < second
    assert (released.epochs, released.anneal_steps, released.isr_class) == (
        paper.epochs,
        paper.anneal_steps,
        paper.isr_class,
    )


@pytest.mark.parametrize(
    ("name", "epochs", "last", "isr_class"),
    [("waterbirds", 300, 2800, 0), ("celeba", 50, 16000, 0), ("multinli", 3, 1200, 2)],
)
def test_published_settings_of_each_data_set(name: str, epochs: int, last: int, isr_class: int) -> None:
    recipe = recipe_for(name)
    assert (recipe.epochs, recipe.isr_class, recipe.unit_scale) == (epochs, isr_class, False)
    assert recipe.anneal_grid(1) == tuple(last * k // 4 for k in range(5))


def test_other_data_have_features_of_one_scale_and_any_class_of_isr() -> None:
    table = recipe_for("table")
    assert (table.epochs, table.isr_class, table.unit_scale) == (50, None, True)


def test_a_detached_centre_is_for_sgd() -> None:
    with pytest.raises(ValueError, match="'hgp-product' is fitted by solver 'sgd' only, but 'solver' is 'converged'"):
        method_grid("hgp-product", "converged", recipe_for("table"), train_rows=10)


def test_names() -> None:
    assert set(PROTOCOL_METHODS) <= set(METHODS)
    with pytest.raises(ValueError, match="Did you mean 'groupdro'"):
        find_method("group-dro")
    with pytest.raises(ValueError, match="'recipe' should be one of"):
        recipe_for("birds")


@pytest.mark.parametrize(
    ("method", "grid"),
    [
        ("hgp", {"gradient_weight": (0.1, 1, 10, 100, 1e3), "hessian_weight": tuple(10.0**k for k in range(-3, 6))}),
        ("irm", {"weight": (1, 10, 100, 1e3, 1e4)}),
        ("fishr", {"weight": (10, 100, 1e3, 1e4), "momentum": (0.9, 0.9225, 0.945, 0.9675, 0.99)}),
        ("cma", dict.fromkeys(("gradient_weight", "hessian_weight"), (1, 10, 100, 1000, 2000, 5000, 10000))),
        ("cma-relative", dict.fromkeys(("gradient_weight", "hessian_weight"), (0.1, 1, 10, 100, 1e3))),
        (
            "moment-alignment",
            dict.fromkeys(("gradient_weight", "hessian_weight"), (1, 1000, 10000))
            | {"third_weight": (1, 10, 100, 1e3)},
        ),
        ("groupdro", {"eta": (1e-3, 1e-2, 1e-1)}),
        ("groupdro-groups", {"eta": (1e-3, 1e-2, 1e-1)}),
    ],
)
def test_the_values_that_are_searched(method: str, grid: dict[str, tuple[float, ...]]) -> None:
    assert METHODS[method].grid == grid


def test_rows_that_a_method_needs_of_every_group() -> None:
    needed = {name: method.least for name, method in METHODS.items() if method.least}
    assert needed == {"subsampled": {"train": 2}, "dfr": {"val": 2}, "dfr-train": {"train": 2, "val": 1}}


@pytest.mark.parametrize(
    ("name", "route"),
    [("gradient-matching", "direct"), ("hessian-matching", "direct"), ("cma", "direct"), ("moment-alignment", "gram")],
)
def test_third_derivatives_alone_take_gram_matrices(name: str, route: str) -> None:
    method = find_method(name)
    penalty = method.make_penalty({key: values[0] for key, values in method.grid.items()})
    assert isinstance(penalty, MomentAlignment)
    assert penalty.route == route
    assert (penalty.bias, penalty.scaling) == (False, method.scaling)
