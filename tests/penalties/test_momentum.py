"""Decaying sums D_e(t) = Σ_k γ^k v_e(t − k), the past detached, by both routes."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from momentalign import CMA, MomentAlignment
from momentalign.penalties import _bank
from tests.penalties.agreement import assert_agrees, differentiated
from tests.penalties.cases import CASES, Case
from tests.references import ReferenceBatch, assert_equal, dense_derivatives, linear, make_batch

pytestmark = pytest.mark.slow

DECAY = 0.5  # ten batches in the bank: nothing has left it in the nine steps here


def batches(loss: str, bias: bool) -> Iterator[ReferenceBatch]:
    """Nine batches of changing size; 2**40 comes late, 3 goes and comes again, 5 is seen once."""
    early, late, all_of_them = (-7, 3), (-7, 2**40), (3, -7, 2**40)
    drawn = (early, early, (-7, 5, 3), early, late, late, all_of_them, early, all_of_them)
    for seed, (n, domains) in enumerate(zip((8, 11, 7, 4, 9, 13, 7, 5, 9), drawn, strict=True)):
        yield make_batch(loss, n=n, domains=domains, bias=bias, seed=seed)


class Definition:
    """The sums themselves, through dense derivatives."""

    def __init__(self, weights: dict[int, float], loss: str, relative: bool) -> None:
        self.weights, self.loss, self.relative = weights, loss, relative
        self.sums: dict[tuple[int, int], Tensor] = {}
        self.energies: dict[int, Tensor] = {}
        self.mass = 0.0

    def __call__(self, features: Tensor, head: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        labels = domains.unique().tolist()
        self.mass = 1 + DECAY * self.mass
        for order, weight in self.weights.items():
            now = dense_derivatives(order, self.loss, features, head, targets, domains)
            past = [self.sums.get((order, label), 0.0) for label in labels]
            sums = torch.stack([v + DECAY * s for v, s in zip(now, past, strict=True)])
            for key in self.sums:
                if key[0] == order and key[1] not in labels:
                    self.sums[key] = DECAY * self.sums[key]
            self.sums |= {(order, label): s.detach() for label, s in zip(labels, sums, strict=True)}
            spread = (sums - sums.mean(0)).square().sum(1).mean()
            total = total + weight * (spread / self.energy(order, features, head, targets, domains))
        return total

    def energy(self, order: int, features: Tensor, head: Tensor, targets: Tensor, domains: Tensor) -> Tensor | float:
        if not self.relative:
            return 1.0
        alone = dense_derivatives(order, self.loss, features, head, targets, torch.arange(len(domains)))
        squares = alone.square().sum(1)
        now = torch.stack([squares[domains == label].mean() for label in domains.unique()]).mean()
        energy = now + DECAY * self.energies.get(order, 0.0)
        self.energies[order] = energy.detach()
        return self.mass * energy


@pytest.mark.parametrize("route", ["gram", "direct", "auto"])
@pytest.mark.parametrize("scaling", ["none", "relative"])
@pytest.mark.parametrize(
    ("loss", "bias"), [("cross_entropy", True), ("cross_entropy", False), ("logistic", True), ("squared_error", True)]
)
def test_value_and_gradients_over_steps(loss: str, bias: bool, scaling: str, route: str) -> None:
    weights = {1: 0.5, 2: 2.0}
    if loss == "logistic" or (route == "gram" and not bias):
        weights[3] = 0.25
    penalty = MomentAlignment(weights, momentum=DECAY, loss=loss, bias=bias, route=route, scaling=scaling)
    definition = Definition(weights, loss, scaling == "relative")
    for batch in batches(loss, bias):
        assert_agrees(penalty, definition, batch)


def steps(number: int, **options: Any) -> list[ReferenceBatch]:
    return [make_batch("cross_entropy", domains=(0, 1, 2), seed=seed, **options) for seed in range(number)]


def test_the_bank_is_cut_where_little_is_lost() -> None:
    gram, direct = (CMA(momentum=DECAY, route=route) for route in ("gram", "direct"))
    found, expected = (torch.stack([penalty(*batch.inputs) for batch in steps(40)]) for penalty in (gram, direct))
    assert gram.memory.features.shape[0] == 10
    error = ((found - expected) / expected).abs()
    assert error[:11].max() < 1e-12
    assert 1e-8 < error.max() < 2e-3


def test_the_bank_is_met_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bank, "_ENTRIES", 16 * 14)
    gram, direct = (CMA(momentum=DECAY, route=route) for route in ("gram", "direct"))
    for batch in steps(4):
        results = [
            differentiated(lambda x, W, y, e, p=penalty: p(x, linear(x, W), y, e), batch) for penalty in (gram, direct)
        ]
        for mine, its in zip(*results, strict=True):
            assert_equal(mine, its)


all_forms = pytest.mark.parametrize("case", [case for case in CASES if case.remembers], ids=str)


@all_forms
def test_backward_after_the_next_forward(case: Case) -> None:
    at_once, later = case.make(num_domains=3), case.make(num_domains=3)
    inputs, values, expected = [], [], []
    for seed in range(4):
        features, logits, *rest = case.batch(seed)
        leaves = features.requires_grad_(), logits.requires_grad_()
        inputs.append(leaves)
        values.append(later(*leaves, *rest))
        expected.append(torch.autograd.grad(at_once(*leaves, *rest), leaves))
    for leaves, value, gradients in zip(inputs, values, expected, strict=True):
        for mine, its in zip(torch.autograd.grad(value, leaves), gradients, strict=True):
            assert torch.equal(mine, its)


@all_forms
def test_the_past_counts_while_annealing(case: Case) -> None:
    patient, eager = case.make(anneal_steps=3), case.make()
    values = [(patient(*case.batch(seed)), eager(*case.batch(seed))) for seed in range(4)]
    assert [value.item() for value, _ in values[:3]] == [0, 0, 0]
    assert torch.equal(*values[3])


@pytest.mark.parametrize("scaling", ["classes", "relative"])
@pytest.mark.parametrize("route", ["gram", "direct"])
@pytest.mark.parametrize("weights", [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)], ids=str)
def test_orders_of_weight_zero_have_a_past_too(weights: tuple[float, float], route: str, scaling: str) -> None:
    some, both = (CMA(*w, momentum=DECAY, route=route, scaling=scaling) for w in (weights, (1.0, 1.0)))
    *past, now = steps(4)
    for batch in past:
        before = both.terms(*batch.inputs)
        both(*batch.inputs)
        expected = sum(weight * before[name] for weight, name in zip(weights, ("gradient", "hessian"), strict=True))
        torch.testing.assert_close(some(*batch.inputs), torch.as_tensor(expected), rtol=1e-12, atol=0)
    assert some.terms(*now.inputs) == both.terms(*now.inputs)


@all_forms
def test_buffers_stay_where_they_are_and_in_float32(case: Case) -> None:
    penalty, places = case.make(num_domains=3), []
    for seed in range(4):
        penalty(*case.batch(seed, torch.bfloat16))
        places.append({name: buffer.data_ptr() for name, buffer in penalty.named_buffers()})
    assert places[0] == places[3]
    kept = [buffer for buffer in penalty.buffers() if buffer.is_floating_point() and buffer.numel()]
    assert kept
    assert all(buffer.dtype == torch.float32 for buffer in kept)


def test_momentum_zero_keeps_nothing() -> None:
    assert list(CMA(momentum=0.0).state_dict()) == ["step"]


@all_forms
@pytest.mark.parametrize("resumed", [False, True])
def test_another_head_is_refused(case: Case, resumed: bool) -> None:
    penalty, logistic = case.make(), case.loss == "logistic"
    penalty(*case.batch(d=4, C=3))
    if resumed:
        state, penalty = penalty.state_dict(), case.make()
        penalty.load_state_dict(state)
    for d, C in ((5, 3), (7, 2)) if logistic else ((5, 3), (4, 4), (7, 2)):
        with pytest.raises(ValueError, match="'features' and 'logits' should keep their widths"):
            penalty(*case.batch(d=d, C=C))
    assert penalty(*case.batch(1, d=4, C=3)) > 0
