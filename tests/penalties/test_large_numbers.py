"""Features far from one: accurate where the result can be represented, an error that says so where it cannot."""

import pytest
import torch

from momentalign import CMA, HGP, MMD, Fishr
from tests.penalties.cases import CASES, Case, value_and_gradients
from tests.references import assert_equal, make_batch


def scaled(by: float, dtype: torch.dtype, **options: object) -> tuple[torch.Tensor, ...]:
    features, logits, targets, domains = make_batch("cross_entropy", d=4, **options).inputs
    return (by * features).to(dtype), logits.to(dtype), targets, domains


@pytest.mark.parametrize("by", [1e-20, 1e-10, 1e8, 1e10, 1e20, 1e30])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("route", ["gram", "direct"])
def test_relative_alignment_of_any_scale(route: str, bias: bool, by: float) -> None:
    found, expected = [], []
    for dtype, values in ((torch.float32, found), (torch.float64, expected)):
        features, *rest = scaled(by, dtype)
        features.requires_grad_()
        penalty = CMA(0.3, 2.1, scaling="relative", route=route, bias=bias)
        values.append(penalty(features, *rest))
        values.append(torch.autograd.grad(values[0], features)[0])
    assert 0.01 < expected[0] < 2
    assert_equal(found[0].double(), expected[0], 1e-5)
    assert_equal(found[1].double(), expected[1], 1e-4 if expected[1].abs().max() > 1e-37 else 2)


@pytest.mark.parametrize("by", [1e10, 1e20, 1e30])
def test_discrepancy_of_any_scale(by: float) -> None:
    features, *rest = scaled(by, torch.float32)
    features.requires_grad_()
    value = MMD()(features, *rest)
    assert_equal(value.double(), MMD()(*scaled(by, torch.float64)), 1e-6)
    assert value > 1
    assert torch.autograd.grad(value, features)[0].isfinite().all()


@pytest.mark.parametrize(
    ("penalty", "by"),
    [(CMA(), 1e10), (CMA(route="direct"), 1e12), (HGP(), 1e8), (HGP(center="product"), 1e9), (Fishr(), 1e12)],
    ids=repr,
)
def test_overflow_is_an_error(penalty: torch.nn.Module, by: float) -> None:
    with pytest.raises(ValueError, match=rf"{type(penalty).__name__} .* torch.float32: features up to"):
        penalty(*scaled(by, torch.float32))
    assert penalty(*scaled(by, torch.float64)).isfinite()


def test_overflow_of_a_moving_average_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"CMA .* nan"):
        CMA(scaling="relative", momentum=0.9)(*scaled(1e12, torch.float32))


def test_without_checks_overflow_is_not_a_number() -> None:
    assert not HGP(validate=False)(*scaled(1e8, torch.float32)).isfinite()
    assert not CMA(scaling="relative", momentum=0.9, validate=False)(*scaled(1e12, torch.float32)).isfinite()


@pytest.mark.parametrize("case", [case for case in CASES if case.initial_weight == 0], ids=str)
def test_nothing_is_left_of_an_overflow_before_the_boundary(case: Case) -> None:
    features, logits, targets, domains = case.batch(dtype=torch.float32)
    penalty = case.make(anneal_steps=2, validate=False)
    for _ in range(2):
        assert not any(found.any() for found in value_and_gradients(penalty, 1e30 * features, logits, targets, domains))
