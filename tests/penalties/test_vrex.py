import pytest

from momentalign import VREx
from tests.penalties.agreement import assert_agrees
from tests.references import CASES, Case, domain_losses, make_batch


@pytest.mark.parametrize("case", CASES, ids=str)
def test_value_and_gradients(case: Case) -> None:
    assert_agrees(
        VREx(3.0, loss=case.loss),
        lambda *inputs: 3 * domain_losses(case.loss, *inputs).var(unbiased=False),
        make_batch(case.loss, balance=case.balance, bias=case.bias),
    )


def test_weighs_one_before_annealing_ends_even_where_it_is_switched_off_later() -> None:
    inputs = make_batch("cross_entropy").inputs
    penalty = VREx(0.0, anneal_steps=1)
    assert penalty(*inputs) == VREx()(*inputs) > 0
    assert penalty(*inputs).item() == 0
