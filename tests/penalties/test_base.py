"""What the base class does: weights, annealing, warnings, and terms of a penalty of one's own."""

from typing import Any

import pytest
import torch

from momentalign import CMA, CORAL, VREx
from momentalign.penalties import DomainPenalty
from tests.bad_batches import changed
from tests.penalties.cases import CASES, Case, seeded
from tests.references import make_batch


@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_computation_gives_the_number_and_the_terms(case: Case) -> None:
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


def test_shows_its_weights() -> None:
    shown = repr(CMA(0.5, 2e4, anneal_steps=7))
    assert shown == "CMA(gradient_weight=0.5, hessian_weight=20000, anneal_steps=7, loss='cross_entropy')"
    assert repr(CORAL(2.0)) == "CORAL(weight=2, anneal_steps=0)"


def test_the_base_class_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        DomainPenalty({})


class Columns(DomainPenalty):
    """Terms that are the first row's features."""

    def __init__(self, weights: tuple[float, ...], **options: Any) -> None:
        super().__init__({str(k): weight for k, weight in enumerate(weights)}, **options)

    def compute_terms(self, batch: Any, names: list[str], *, update: bool) -> dict[str, torch.Tensor]:
        return {name: batch.features[0, int(name)] for name in names}


@pytest.mark.parametrize("terms", [1, 2, 3, 4])
@pytest.mark.parametrize("start", [0, 1, 2, 9])
@pytest.mark.parametrize("initial", [0.0, 1.0])
def test_weights_take_effect_at_their_step(terms: int, start: int, initial: float) -> None:
    """Three calls, the second of them in evaluation mode, which does not count."""
    weights, counted = (0.5, 3.0, 0.0, 7.0)[:terms], 0
    penalty = Columns(weights, anneal_steps=start)
    penalty.initial_weight = initial
    for training in (True, False, True):
        features = torch.arange(2.0, 2.0 + terms).repeat(2, 1).requires_grad_()
        total, named = penalty.train(training).with_terms(
            features, torch.zeros(2, 2), torch.tensor([0, 1]), torch.tensor([0, 1])
        )
        in_force = weights if counted >= start else (initial,) * terms
        assert set(named) == {str(k) for k, weight in enumerate(weights) if weight or (start and initial)}
        assert total.item() == sum(weight * (2 + k) for k, weight in enumerate(in_force))
        assert torch.autograd.grad(total, features)[0][0].tolist() == list(in_force)
        counted += training
        assert penalty.step.item() == counted


def test_vrex_weighs_one_before_annealing_ends_even_where_it_is_switched_off_later() -> None:
    inputs = make_batch("cross_entropy").inputs
    penalty = VREx(0.0, anneal_steps=1)
    assert penalty(*inputs) == VREx()(*inputs) > 0
    assert penalty(*inputs).item() == 0


def test_calls_count_while_all_weights_are_zero() -> None:
    penalty = CMA(0.0, 0.0, anneal_steps=2)
    for _ in range(2):
        assert penalty(*changed()).item() == 0
    assert penalty.step.item() == 2
    penalty.weights["gradient"] = 1.0  # in force at once: annealing is over
    batch = make_batch("cross_entropy", domains=(0, 1, 2)).inputs
    assert penalty(*batch).item() == penalty.terms(*batch)["gradient"].item() > 0


class Own(DomainPenalty):
    """A penalty as a user writes one: its term is given by a function of the batch."""

    def __init__(self, term: Any, *more: str, **options: Any) -> None:
        super().__init__(dict.fromkeys(("mine", *more), 1.0), **options)
        self.term = term

    def compute_terms(self, batch: Any, names: list[str], *, update: bool) -> dict[str, torch.Tensor]:
        return self.term(batch)


def test_a_term_that_is_not_finite_is_named() -> None:
    terms = {"mine": 1.0, "large": torch.inf, "none": torch.nan}
    own = Own(lambda b: {name: b.features.sum() * by for name, by in terms.items()}, "large", "none")
    with pytest.raises(ValueError, match=r"^Term 'large' of Own .* inf"):
        own(*changed())
    own.validate = False
    assert own(*changed()).isnan()


@pytest.mark.parametrize("term", [lambda b: b.features.detach().sum(), lambda b: 1.0, lambda b: b.domains.sum()])
def test_a_penalty_that_trains_nothing_is_an_error(term: Any) -> None:
    """Where nothing is trained it may be looked at."""
    own, (features, logits, targets, domains) = Own(lambda b: {"mine": term(b)}), changed()
    assert own(features, logits, targets, domains) >= 1
    with pytest.raises(ValueError, match=r"^Own has no gradient"):
        own(features.requires_grad_(), logits.requires_grad_(), targets, domains)


def test_logits_that_are_probabilities_are_warned_of_once() -> None:
    features, logits, targets, domains = changed()
    penalty = CMA()
    with pytest.warns(UserWarning, match="'logits' look like probabilities"):
        penalty(features, (logits + features[:, :1]).softmax(1), targets, domains)
    assert penalty(features, logits.softmax(1), targets, domains).isfinite()
