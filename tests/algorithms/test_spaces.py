"""The table of search spaces: what holds for every row."""

import pytest

from momentalign import penalties
from momentalign.algorithms import (
    PRESETS,
    algorithm_names,
    check_hyperparameters,
    draw_hyperparameters,
    find_algorithm,
)
from momentalign.penalties import DomainPenalty
from tests.algorithms.tiny import K, network
from tests.penalties.cases import CASES

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
