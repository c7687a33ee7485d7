"""Search spaces: draws, checks, and what holds for every row of the table."""

import itertools
import json
from pathlib import Path

import pytest

from momentalign import penalties
from momentalign.algorithms import (
    PRESETS,
    Hyperparameter,
    algorithm_names,
    annealing,
    check_hyperparameters,
    draw_hyperparameters,
    find_algorithm,
    one_of,
    power_of_ten,
    power_of_two,
    uniform,
    whole,
)
from momentalign.penalties import DomainPenalty
from tests.algorithms.tiny import K, network
from tests.penalties.cases import CASES

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


every = pytest.mark.parametrize("name", algorithm_names())


def drawn_range(space, name: str) -> tuple[float, float]:
    drawn = [draw_hyperparameters(space, seed)[name] for seed in range(1, 300)]
    return min(drawn), max(drawn)


@every
def test_an_algorithm_is_built_from_any_draw_of_its_spaces(name: str) -> None:
    spec = find_algorithm(name)
    for preset in PRESETS:
        for recipe in ("image", "text", "table", "digits"):
            space = spec.space(recipe, 5001, preset)
            assert set(space) == set(spec.space("mnist", 100, preset))
            drawn = draw_hyperparameters(space, 1)
            assert check_hyperparameters(space, drawn) == drawn
        for seed in range(3):
            drawn = draw_hyperparameters(spec.space("mnist", 100, preset), seed)
            penalty = getattr(spec.build(network(), K, drawn), "penalty", None)
            if penalty is not None:
                assert (penalty.num_domains, penalty.anneal_steps) == (K, drawn["anneal_steps"])
                weights = {value for key, value in drawn.items() if key.endswith("weight")}
                assert set(penalty.weights.values()) == weights
                assert set(penalty.weights) <= set(spec.term_labels)
                assert penalty.capturable


@every
def test_safe_weights_are_shares_of_one_at_once(name: str) -> None:
    spec = find_algorithm(name)
    space = spec.space("image", 5001, "safe")
    if spec.has_space("safe"):
        assert space["anneal_steps"].default == 0
        assert space["momentum"].default == (0.95 if name == "cma-momentum" else 0.0)
        assert space["scaling"].default == "relative"
        for weight in (key for key in space if key.endswith("_weight")):
            low, high = drawn_range(space, weight)
            assert space[weight].default == 0.1
            assert 0.01 <= low < 0.012
            assert 0.8 < high <= 1


@every
def test_public_code_anneals_only_where_it_is_drawn(name: str) -> None:
    published, released = (find_algorithm(name).space("image", 5001, preset) for preset in ("published", "released"))
    assert list(published) == list(released)
    assert {key: each.default for key, each in published.items() if key != "anneal_steps"} == {
        key: each.default for key, each in released.items() if key != "anneal_steps"
    }
    if name in ("cma", "cma-diagonal", "vrex"):
        low, high = drawn_range(released, "anneal_steps")
        least = 1 if name == "vrex" else 100
        assert released["anneal_steps"].default == 0
        assert least <= low < 1.2 * least
        assert 8000 < high <= 10_000
    elif "anneal_steps" in published:
        assert released["anneal_steps"].default == published["anneal_steps"].default


def test_diagonals_are_searched_as_cma_is() -> None:
    mine, its = (find_algorithm(name).space("mnist", 5001) for name in ("cma-diagonal", "cma"))
    for seed in range(4):
        assert draw_hyperparameters(mine, seed) == draw_hyperparameters(its, seed)
    assert mine["scaling"].choices == ("none", "classes", "parameters")


def test_names_of_terms_and_algorithms_are_unique() -> None:
    specs = [find_algorithm(name) for name in algorithm_names()]
    assert len({spec.label for spec in specs}) == len(specs)
    titles: dict[str, str] = {}
    for spec in specs:
        for term, title in spec.term_labels.items():
            assert titles.setdefault(term, title) == title


def test_every_penalty_has_a_row_and_a_case() -> None:
    public = {getattr(penalties, name) for name in penalties.__all__}
    ours = {each for each in public if isinstance(each, type) and issubclass(each, DomainPenalty)}
    ours -= {DomainPenalty, penalties.VectorPenalty}
    assert {type(case.make()) for case in CASES} == ours
    assert ours <= {find_algorithm(name).cls for name in algorithm_names()}
