"""What every penalty of the package declares for sweeps, reports and tests."""

import pytest

from momentalign.algorithms import check_hyperparameters, draw_hyperparameters
from momentalign.penalties import CMA, PENALTIES, CMADiagonal, CMAMomentum, DomainPenalty, MomentAlignment, VREx
from tests.penalties.cases import CASES

every = pytest.mark.parametrize("cls", PENALTIES)


@every
def test_name_label_and_search_space_are_declared_by_the_class_itself(cls: type[DomainPenalty]) -> None:
    assert {"name", "label", "search_space"} <= set(vars(cls))
    assert cls.name == cls.name.lower()
    assert cls.capturable


def test_names_and_labels_are_unique() -> None:
    assert len({cls.name for cls in PENALTIES}) == len({cls.label for cls in PENALTIES}) == len(PENALTIES)


@every
def test_a_penalty_is_built_from_any_draw_of_its_space(cls: type[DomainPenalty]) -> None:
    space = cls.search_space("mnist", 100)
    assert set(space) == set(cls.search_space("text", 5001))
    for seed in range(3):
        drawn = draw_hyperparameters(space, seed)
        assert check_hyperparameters(space, drawn) == drawn
        penalty = cls.from_hyperparameters(**drawn, num_domains=3)
        assert type(penalty) is cls
        assert penalty.num_domains == 3
        weights = [value for name, value in drawn.items() if name.endswith("weight")]
        assert set(penalty.weights.values()) == set(weights)


def test_constructors_weigh_every_term_by_one_at_once() -> None:
    momentum = {"fishr": 0.95, "cma-momentum": 0.95}
    for cls in set(PENALTIES) - {MomentAlignment}:
        penalty = cls()
        assert set(penalty.weights.values()) == {1.0}, cls
        assert penalty.anneal_steps == 0
        assert getattr(penalty, "momentum", 0.0) == momentum.get(cls.name, 0.0), cls
        assert (penalty.bias, penalty.gather, penalty.validate, penalty.num_domains) == (True, True, None, None)


def drawn_range(space, name: str) -> tuple[float, float]:
    drawn = [draw_hyperparameters(space, seed)[name] for seed in range(1, 300)]
    return min(drawn), max(drawn)


@every
def test_safe_weights_are_shares_of_one_at_once(cls: type[DomainPenalty]) -> None:
    space = cls.safe_search_space("image", 5001)
    if "safe_search_space" in vars(cls):
        assert space["anneal_steps"].default == 0
        assert space["momentum"].default == (0.95 if cls is CMAMomentum else 0.0)
        assert space["scaling"].default == "relative"
        for name in space:
            if name.endswith("_weight"):
                low, high = drawn_range(space, name)
                assert space[name].default == 0.1
                assert 0.01 <= low < 0.012
                assert 0.8 < high <= 1


@every
def test_public_code_anneals_only_where_it_is_drawn(cls: type[DomainPenalty]) -> None:
    published, released = cls.search_space("image", 5001), cls.released_search_space("image", 5001)
    assert set(published) == set(released)
    assert {name: each.default for name, each in published.items() if name != "anneal_steps"} == {
        name: each.default for name, each in released.items() if name != "anneal_steps"
    }
    if cls in (CMA, CMADiagonal, VREx):
        low, high = drawn_range(released, "anneal_steps")
        least = 1 if cls.name == "vrex" else 100
        assert released["anneal_steps"].default == 0
        assert least <= low < 1.2 * least
        assert 8000 < high <= 10_000
    else:
        assert released["anneal_steps"].default == published["anneal_steps"].default


def test_diagonals_are_measured_by_classes_as_published() -> None:
    for space in (CMADiagonal.search_space("image", 5001), CMADiagonal.released_search_space("image", 5001)):
        assert space["scaling"].default == "classes"
        assert (space["gradient_weight"].default, space["hessian_weight"].default) == (5000, 1000)


@every
def test_every_term_has_a_label(cls: type[DomainPenalty]) -> None:
    penalty = cls.from_hyperparameters(**draw_hyperparameters(cls.search_space("mnist", 100), 0))
    assert set(penalty.weights) <= set(cls.term_labels)


def test_a_term_has_one_label() -> None:
    for cls in PENALTIES:
        for other in PENALTIES:
            shared = cls.term_labels.keys() & other.term_labels.keys()
            assert all(cls.term_labels[term] == other.term_labels[term] for term in shared)


def test_every_penalty_is_among_the_cases() -> None:
    assert {type(case.make()) for case in CASES} == set(PENALTIES)


def test_a_penalty_of_ones_own_is_not_captured_unless_it_says_so() -> None:
    assert not DomainPenalty.capturable
