"""What every penalty promises, over one list of them; exceptions are named in that list."""

import warnings

import pytest
import torch
from torch import nn

from momentalign import MomentAlignment
from tests.penalties.cases import CASES, Case, Inputs, seeded, value_and_gradients
from tests.references import LABELS, assert_equal, make_batch

pytestmark = pytest.mark.slow

all_cases = pytest.mark.parametrize("case", CASES, ids=str)
precisions = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])


def identical_domains(case: Case, dtype: torch.dtype) -> Inputs:
    """Three domains of the same seven samples."""
    features, logits, targets, _ = case.batch(dtype=dtype)
    return (*(torch.cat([tensor[:7]] * 3) for tensor in (features, logits, targets)), rows_of(7, 7, 7))


def rows_of(*sizes: int) -> torch.Tensor:
    return torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))


@all_cases
@precisions
def test_zero_for_identical_domains(case: Case, dtype: torch.dtype) -> None:
    tolerance = 1e-6 if dtype == torch.float32 else 1e-13
    value, norm = case.value(*identical_domains(case, dtype)), case.value(*case.batch(dtype=dtype))
    assert (abs(value) <= tolerance * abs(norm)) == case.zero_for_identical_domains


@all_cases
def test_row_order_and_names_of_domains(case: Case) -> None:
    inputs = case.batch(balance="balanced")
    value = case.value(*inputs)
    renamed = torch.tensor(LABELS)[inputs[3]]
    assert_equal(case.value(*inputs[:3], renamed), value, 1e-13)
    assert_equal(case.value(*inputs[:3], renamed.clamp(max=5).int()), value, 1e-13)
    order = torch.randperm(len(inputs[0]), generator=torch.Generator().manual_seed(1))
    permuted = case.value(*(tensor[order] for tensor in inputs))
    assert torch.isclose(permuted, value, rtol=1e-12).item() == case.invariant_to_row_order


@all_cases
def test_never_negative(case: Case) -> None:
    values = []
    for seed in range(12):
        features, logits, targets, domains = case.batch(seed, torch.float32, n=9, d=2)
        values += [
            case.value(features, logits, targets, domains),
            case.value(features.round(), logits.round(), targets, torch.arange(9) % 3),
            case.value(features + 100, 8 * logits, targets, domains),
            case.value(*(tensor[:1].expand(9, *tensor.shape[1:]) for tensor in (features, logits, targets)), domains),
        ]
    assert (min(values) >= 0).item() == case.never_negative


def test_order_three_is_not_negative() -> None:
    features, logits, targets, _ = make_batch("cross_entropy", n=6, d=4).inputs
    repeated = [tensor[:2].float().repeat(3, 1) for tensor in (features, logits)]
    assert MomentAlignment({3: 1.0})(*repeated, targets[:2].repeat(3), torch.arange(6) // 2) >= 0


@all_cases
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_finite_for_huge_logits(case: Case, dtype: torch.dtype) -> None:
    features, logits, targets, domains = case.batch(dtype=dtype)
    found = value_and_gradients(case.value, features, 1e4 * logits, targets, domains)
    assert found[0].dtype == torch.float32
    assert all(tensor.isfinite().all() for tensor in found)


@pytest.mark.cpu_bfloat16
@all_cases
def test_computes_in_float32_under_autocast(case: Case) -> None:
    features, logits, targets, domains = case.batch(dtype=torch.float32)
    encoder, head = nn.Linear(features.shape[1], 5), nn.Linear(5, logits.shape[1])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = encoder(features)
        logits = head(features)
        value = case.value(features, logits, targets, domains)
    assert features.dtype == logits.dtype == torch.bfloat16
    assert value.dtype == torch.float32
    assert_equal(value, case.value(features.float(), logits.float(), targets, domains), 0.0)
    value.backward()
    assert all(p.grad.isfinite().all() for p in [*encoder.parameters(), *head.parameters()] if p.grad is not None)


@all_cases
def test_adds_a_gradient_where_it_should(case: Case) -> None:
    _, *found = value_and_gradients(case.value, *case.batch())
    reached = [name for name, gradient in zip(("features", "logits"), found, strict=True) if gradient.any()]
    assert tuple(reached) == case.reaches


@all_cases
def test_one_domain_is_zero_with_one_warning(case: Case) -> None:
    features, logits, targets, domains = case.batch()
    penalty = case.make()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values = [penalty(features, logits, targets, torch.full_like(domains, 8)) for _ in range(3)]
        penalty.terms(features, logits, targets, torch.zeros_like(domains))
    assert all((abs(value) < 1e-20).item() == case.compares_domains for value in values)
    assert [w.category for w in caught] == [UserWarning] * case.compares_domains
    assert all("All 21 samples of the batch are of domain 8" in str(w.message) for w in caught)


@all_cases
@pytest.mark.parametrize("sizes", [(1, 1), (11, 10), (1, 1, 19), (1, 1, 1)], ids=str)
def test_defined_for_few_domains_and_single_rows(case: Case, sizes: tuple[int, ...]) -> None:
    features, logits, targets, _ = (tensor[: sum(sizes)] for tensor in case.batch(dtype=torch.float32))
    found = value_and_gradients(case.value, features, logits, targets, rows_of(*sizes))
    assert all(tensor.isfinite().all() for tensor in found)
    # A variance within a domain or a product of two halves of it is 0 where it has a single row.
    assert found[0].item() != 0 or (max(sizes) == 1 and case.name.startswith(("fishr", "irm-scale")))


@all_cases
def test_number_of_domains_changes_nothing(case: Case) -> None:
    inputs = case.batch()
    assert_equal(case.value(*inputs, num_domains=5), case.value(*inputs), 1e-13)
    with pytest.raises(ValueError, match=r"'domains' should lie between 0 and 1 with num_domains=2"):
        case.value(*inputs, num_domains=2)


@all_cases
def test_random_only_if_it_says_so(case: Case) -> None:
    inputs = case.batch()
    first, second = case.make(), case.make()
    assert (first(*inputs) != second(*inputs)).item() == case.random


@all_cases
def test_annealing(case: Case) -> None:
    penalty = case.make(anneal_steps=2)
    for step in range(4):
        inputs = case.batch(seed=step)
        terms = seeded(penalty.terms, *inputs)
        assert set(terms) == set(penalty.weights)
        weights = penalty.weights if step >= 2 else dict.fromkeys(terms, case.initial_weight)
        expected = sum(weights[name] * term for name, term in terms.items())
        assert_equal(seeded(penalty, *inputs), expected, 1e-13)
    assert penalty.step.item() == 4


@all_cases
def test_only_training_calls_move_the_state(case: Case) -> None:
    penalty = case.make()
    for seed in range(3):
        before = {name: tensor.clone() for name, tensor in penalty.state_dict().items()}
        penalty.eval()
        in_eval = seeded(penalty, *case.batch(seed))
        penalty.train().terms(*case.batch(seed))
        after = penalty.state_dict()
        assert before.keys() == after.keys()
        assert all(torch.equal(before[name], after[name]) for name in before)
        assert_equal(seeded(penalty, *case.batch(seed)), in_eval, 0.0)
        assert penalty.step.item() == seed + 1
        moved = [name for name, tensor in penalty.state_dict().items() if not torch.equal(tensor, before[name])]
        assert (len(moved) > 1) == case.remembers
