"""What every penalty of the package declares for sweeps, reports and tests."""

import pytest

from momentalign.algorithms import check_hyperparameters, draw_hyperparameters
from momentalign.penalties import PENALTIES, DomainPenalty
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
