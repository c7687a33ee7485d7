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
