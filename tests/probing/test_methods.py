"""Grids, recipes of the data sets, and configurations of single probes."""

import math

import pytest

from momentalign.penalties import MomentAlignment
from momentalign.probing import GROUP_METHODS, METHODS, find_method, make_probe_config, method_grid, recipe_for
from tests.probing.problems import spurious_data

DATA = spurious_data(160, 80, features=4)
PUBLISHED = (1, 10, 100, 1000, 2000, 5000, 10000)
RELATIVE = (0.1, 1, 10, 100, 1e3)


@pytest.mark.parametrize(
    ("method", "converged", "sgd"),
    [
        *[(name, 1, 1) for name in ("erm", "coral", "balanced")],
        *[(name, 1, 0) for name in ("subsampled", "dfr", "dfr-train")],
        *[(name, 1, 3) for name in ("groupdro", "groupdro-groups")],
        *[(name, 5, 25) for name in ("irm", "vrex")],
        *[(name, 45, 225) for name in ("hgp", "hutchinson")],
        ("hgp-product", 0, 225),
        ("fishr", 20, 100),
        ("gradient-matching", 7, 35),
        ("cma", 49, 245),
        ("cma-balanced", 36, 0),
    ],
)
def test_grids_have_the_published_sizes(method: str, converged: int, sgd: int) -> None:
    for solver, size in (("converged", converged), ("sgd", sgd)):
        if size:
            assert len(method_grid(method, solver, recipe_for("celeba"), train_rows=162_770)) == size
        else:
            with pytest.raises(
                ValueError, match=f"'{method}' is fitted by solver '.*' only, but 'solver' is '{solver}'"
            ):
                method_grid(method, solver, recipe_for("celeba"), train_rows=10)


@pytest.mark.parametrize(
    ("method", "grid"),
    [
        ("hgp", {"gradient_weight": RELATIVE, "hessian_weight": tuple(10.0**k for k in range(-3, 6))}),
        ("irm", {"weight": (1, 10, 100, 1e3, 1e4)}),
        ("fishr", {"weight": (10, 100, 1e3, 1e4), "momentum": (0.9, 0.9225, 0.945, 0.9675, 0.99)}),
        ("cma", dict.fromkeys(("gradient_weight", "hessian_weight"), PUBLISHED)),
        ("cma-relative", dict.fromkeys(("gradient_weight", "hessian_weight"), RELATIVE)),
        ("groupdro", {"eta": (1e-3, 1e-2, 1e-1)}),
        ("groupdro-groups", {"eta": (1e-3, 1e-2, 1e-1)}),
    ],
)
def test_the_values_that_are_searched(method: str, grid: dict[str, tuple[float, ...]]) -> None:
    assert METHODS[method].grid == grid


@pytest.mark.parametrize(
    ("name", "epochs", "last", "isr_class", "cma", "fishr", "weight"),
    [
        ("waterbirds", 300, 2800, 0, (10, 1000, 2100), (100, 0.945, 2800), 0.1),
        ("celeba", 50, 16000, 0, (5000, 100, 4000), (10, 0.9225, 12000), 0.1),
        ("multinli", 3, 1200, 2, (5000, 1, 0), (1e4, 0.99, 600), 0.0),
    ],
)
def test_published_settings_of_each_data_set(
    name: str, epochs: int, last: int, isr_class: int, cma: tuple[float, ...], fishr: tuple[float, ...], weight: float
) -> None:
    paper, released = recipe_for(name), recipe_for(f"{name}-released")
    for recipe in (paper, released):
        assert (recipe.epochs, recipe.isr_class, recipe.unit_scale) == (epochs, isr_class, False)
        assert recipe.anneal_grid(1) == tuple(last * k // 4 for k in range(5))
    for method, expected in (("cma", cma), ("fishr", fishr)):
        grid = method_grid(method, "sgd", paper, train_rows=5000)
        assert tuple(grid[0].values()) == expected  # the best one comes first and once
        assert grid.count(grid[0]) == 1
        assert set(grid[0]) == set(grid[1])
    for hparam in ("gradient_weight", "hessian_weight"):
        grids = [method_grid("cma", "converged", recipe, train_rows=1000) for recipe in (paper, released)]
        assert [{one[hparam] for one in grid} for grid in grids] == [set(PUBLISHED), {*PUBLISHED, weight}]


def test_the_public_code_counts_evaluation_batches() -> None:
    released, rows = recipe_for("waterbirds-released"), {"train_rows": 4795, "evaluation_rows": (1199, 5794)}
    for method in ("fishr", "hgp-product"):
        steps = {one["anneal_steps"] for one in method_grid(method, "sgd", released, **rows)}
        assert steps == {0, 280, 560, 840, 1120}
    assert method_grid("fishr", "sgd", released, **rows)[0] == {"weight": 100, "momentum": 0.945, "anneal_steps": 1120}
    grid = method_grid("cma", "sgd", released, **rows)
    assert tuple(grid[0].values()) == (10, 1000, 2100)  # its own counter has training steps alone
    assert len(grid) == 8 * 8 * 5
    # In the middle of an epoch's evaluation: the next training step.
    assert [released.training_step(count, **rows) for count in (0, 9, 10, 24, 25, 26)] == [0, 9, 10, 10, 10, 11]


def test_other_data_have_features_of_one_scale_and_any_class_of_isr() -> None:
    table = recipe_for("table")
    assert (table.epochs, table.isr_class, table.unit_scale) == (50, None, True)
    assert table.anneal_grid(1000) == (0, 24, 48, 72, 96)
    assert table.anneal_grid(0) == (0,)


def test_notes_say_where_nothing_is_tuned() -> None:
    assert [bool(find_method("groupdro").notes(solver)) for solver in ("converged", "sgd")] == [True, False]


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="Did you mean 'groupdro'"):
        find_method("group-dro")
    with pytest.raises(ValueError, match="'recipe' should be one of"):
        recipe_for("birds")


def test_rows_that_a_method_needs_of_every_group() -> None:
    needed = {name: METHODS[name].least for name in GROUP_METHODS if METHODS[name].least}
    assert needed == {"subsampled": {"train": 2}, "dfr": {"val": 2}, "dfr-train": {"train": 2, "val": 1}}


@pytest.mark.parametrize("name", ["gradient-matching", "hessian-matching", "cma"])
def test_alignment_takes_the_direct_route(name: str) -> None:
    method = find_method(name)
    penalty = method.make_penalty({key: values[0] for key, values in method.grid.items()})
    assert isinstance(penalty, MomentAlignment)
    assert (penalty.route, penalty.bias, penalty.scaling) == ("direct", False, method.scaling)


def test_configurations_of_each_solver() -> None:
    isr = {"isr": True, "isr_class": None, "isr_scale": 0.0}
    shared = {"components": 100, **isr, "unit_scale": True, "recipe": "table"}
    converged = make_probe_config("spurious", "erm", data=DATA)
    assert converged.hparams == {"solver": "converged", "l2": 1e-3, "tol": 1e-5, **shared}
    assert (converged.steps, converged.record_every) == (500, 1)
    sgd = make_probe_config("spurious", "erm", solver="sgd", data=DATA)
    settings = {"lr": 1e-3, "batch_size": 500, "epochs": 50}
    assert sgd.hparams == {"solver": "sgd", "l2": 0.0, **settings, **shared}
    celeba = make_probe_config("spurious", "erm", recipe="celeba", data=DATA).hparams
    assert (celeba["isr_class"], celeba["unit_scale"]) == (0, False)


@pytest.mark.parametrize(("batch", "epochs", "every"), [(7, 100, None), (50, 3, None), (7, 10, 5)])
def test_sgd_takes_whole_epochs_and_records_about_a_hundred_times(batch: int, epochs: int, every: int | None) -> None:
    hparams = {"batch_size": batch, "epochs": epochs}
    config = make_probe_config("spurious", "erm", solver="sgd", data=DATA, hparams=hparams, record_every=every)
    assert config.steps == math.ceil(len(DATA.rows("train")) / batch) * epochs
    assert config.record_every == (every or max(1, config.steps // 100))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hparams_seed": 1}, "'hparams_seed' should be below 1"),
        ({"hparams_seed": -1}, "'hparams_seed'"),
        ({"trial": -1}, "'trial'"),
        ({"record_every": 0}, "'record_every'"),
        ({"solver": "adam"}, "'solver'"),
        ({"hparams": {"tolerance": 1}}, "'tolerance'"),
        ({"solver": "sgd", "hparams": {"batch_size": 0}}, "'batch_size'"),
        ({"solver": "sgd", "hparams": {"epochs": 0}}, "'epochs'"),
    ],
)
def test_what_no_probe_has_is_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_probe_config("spurious", "erm", data=DATA, **options)
