"""One computation gives what calling the penalty and asking for its terms give."""

import warnings

import pytest
import torch

from tests.penalties.cases import CASES, Case, seeded


@pytest.mark.parametrize("case", CASES, ids=str)
def test_same_number_and_same_terms(case: Case) -> None:
    together, called, asked = (case.make(anneal_steps=1) for _ in range(3))
    for seed in range(3):
        inputs = case.batch(seed)
        terms = seeded(asked.terms, *inputs)
        seeded(asked, *inputs)
        total, parts = seeded(together.with_terms, *inputs)
        assert torch.equal(total, seeded(called, *inputs))
        assert list(parts) == list(terms)
        assert all(torch.equal(parts[name], terms[name]) for name in terms)
        assert not any(part.requires_grad for part in parts.values())
    assert together.step == called.step == 3


def test_the_warning_points_at_the_callers_line() -> None:
    case = CASES[0]
    features, logits, targets, domains = case.batch()
    for ask in (case.make(), case.make().with_terms, case.make().terms):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ask(features, logits, targets, torch.zeros_like(domains))
        assert [warning.filename for warning in caught] == [__file__]
