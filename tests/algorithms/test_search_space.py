import itertools
import json
from pathlib import Path

import pytest

from momentalign.algorithms import (
    Hyperparameter,
    annealing,
    draw_hyperparameters,
    find_algorithm,
    one_of,
    power_of_ten,
    power_of_two,
    uniform,
    whole,
)

pytestmark = pytest.mark.slow

GOLDEN = json.loads(Path(__file__).with_name("golden_draws.json").read_text())
"""First draws of published search spaces for 5001 steps: algorithm, recipe, hyper-parameter seeds 0 to 2."""

STEPS = 5001


@pytest.mark.parametrize("recipe", ["mnist", "image"])
@pytest.mark.parametrize("name", GOLDEN)
def test_draws_are_what_they_were(name: str, recipe: str) -> None:
    space = find_algorithm(name).space(recipe, STEPS)
    for seed, expected in enumerate(GOLDEN[name][recipe]):
        drawn = draw_hyperparameters(space, seed)
        assert list(drawn) == list(expected)
        for key, value in drawn.items():
            assert type(value) is type(expected[key]), key
            assert value == (pytest.approx(expected[key], rel=1e-12) if isinstance(value, float) else expected[key])


def test_draws_do_not_move_when_a_name_is_added() -> None:
    space = find_algorithm("cma").space("mnist", STEPS)
    more = {"another": Hyperparameter(1.0, uniform(0, 1)), **space}
    assert draw_hyperparameters(more, 1).items() > draw_hyperparameters(space, 1).items()


@pytest.mark.parametrize("name", ["cma", "irm", "vrex", "fishr", "cma-momentum", "moment-alignment"])
def test_annealing_keeps_its_share_of_the_run(name: str) -> None:
    for steps, seed in itertools.product((1, 300, 500, 10_002), range(8)):
        long, short = (
            draw_hyperparameters(find_algorithm(name).space("mnist", each), seed)["anneal_steps"]
            for each in (STEPS, steps)
        )
        assert short == round(long * steps / STEPS)
        assert type(short) is int


@pytest.mark.parametrize(
    ("draw", "low", "high"),
    [
        (power_of_ten(-1, 2), 0.1, 100),
        (uniform(0.9, 0.99), 0.9, 0.99),
        (power_of_two(6, 10), 64, 1024),
        (whole(power_of_two(0, 3)), 1, 8),
        (one_of(3, 5), 3, 5),
        (annealing(1, one_of(500, 4500), 5001).draw, 500, 4500),
    ],
)
def test_draws_fill_their_range(draw, low: float, high: float) -> None:
    space = {"x": Hyperparameter(0, draw)}
    drawn = [draw_hyperparameters(space, seed)["x"] for seed in range(1, 400)]
    assert low <= min(drawn) < low + 0.1 * (high - low)
    assert high - 0.3 * (high - low) < max(drawn) <= high


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("gradient_wieght", 1.0, ValueError, "gradient_weight"),
        ("eta", 1.0, ValueError, "scaling"),
        ("lr", "fast", TypeError, "'lr'"),
        ("lr", True, TypeError, "'lr'"),
        ("lr", -1.0, ValueError, "'lr'"),
        ("lr", float("nan"), ValueError, "'lr'"),
        ("dropout", 2, ValueError, "'dropout'"),
        ("batch_size", 6.5, TypeError, "'batch_size'"),
        ("batch_size", 0, ValueError, "'batch_size'"),
        ("gradient_weight", float("inf"), ValueError, "'gradient_weight'"),
        ("scaling", "class", ValueError, "'classes'"),
        ("optimizer", "sgd", ValueError, "'optimizer'"),
    ],
)
def test_bad_values_are_named(name: str, value: object, error: type[Exception], message: str) -> None:
    space = find_algorithm("cma").space("mnist", STEPS)
    with pytest.raises(error, match=message):
        draw_hyperparameters(space, 1, {name: value})


def test_values_get_the_type_of_the_default() -> None:
    drawn = draw_hyperparameters(find_algorithm("cma").space("mnist", STEPS), 0, {"gradient_weight": 3, "clip": 1})
    assert repr((drawn["gradient_weight"], drawn["clip"])) == "(3.0, 1.0)"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: find_algorithm("erm").space("mnits", 10), "'recipe' should be one of .*Did you mean 'mnist'"),
        (lambda: find_algorithm("erm").space("mnist", 0), "'steps' should be at least 1"),
        (lambda: draw_hyperparameters({}, -1), "'hparams_seed' should be at least 0"),
    ],
)
def test_bad_arguments(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
