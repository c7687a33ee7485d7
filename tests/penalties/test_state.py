"""A penalty that is saved, copied or sent goes on as if nothing had happened."""

import copy
import io
import pickle
from collections.abc import Callable

import pytest
import torch

from momentalign.penalties import DomainPenalty
from tests.penalties.cases import CASES, Case, value_and_gradients

pytestmark = pytest.mark.slow


def through_state_dict(case: Case, penalty: DomainPenalty) -> DomainPenalty:
    file = io.BytesIO()
    torch.save(penalty.state_dict(), file)
    file.seek(0)
    fresh = case.make(anneal_steps=4)
    fresh.load_state_dict(torch.load(file))
    return fresh


def through_used_module(case: Case, penalty: DomainPenalty) -> DomainPenalty:
    used = case.make(anneal_steps=4)
    used(*case.batch(n=30, domains=(0, 1, 2, 3, 4)))
    used.load_state_dict(penalty.state_dict())
    return used


COPIES = {
    "state_dict": through_state_dict,
    "used": through_used_module,
    "deepcopy": lambda case, penalty: copy.deepcopy(penalty),
    "pickle": lambda case, penalty: pickle.loads(pickle.dumps(penalty)),
}


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_goes_on_identically(case: Case, duplicate: Callable[[Case, DomainPenalty], DomainPenalty]) -> None:
    penalty = case.make(anneal_steps=4)
    for seed, size in enumerate((14, 21, 7)):  # the buffers grow, the last domain comes late
        penalty(*case.batch(seed, n=size, domains=(0, 1, 2)[: 2 + (seed > 0)]))
    twin = duplicate(case, penalty)
    for seed in range(3, 6):
        results = [value_and_gradients(each, *case.batch(seed)) for each in (penalty, twin)]
        assert all(torch.equal(mine, its) for mine, its in zip(*results, strict=True))
        assert (results[0][0] != 0).item() == (seed >= 4 or case.initial_weight > 0)
    assert penalty.step.item() == twin.step.item() == 6


@pytest.mark.parametrize("case", [case for case in CASES if case.remembers], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_cast_on_the_way(case: Case, dtype: torch.dtype) -> None:
    penalty, untouched = case.make(), case.make()
    values = []
    for seed in range(3):
        inputs = case.batch(seed, torch.float32)
        values.append(torch.stack([penalty(*inputs), untouched(*inputs)]))
        penalty.to(dtype)
    assert all(abs(mine - its) < 0.02 * its for mine, its in values)
