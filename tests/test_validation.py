from collections.abc import Callable
from functools import partial
from math import nan

import pytest
import torch
from torch import Tensor

from momentalign._batch import checks_values
from momentalign._validation import check_count, check_decay, check_nonnegative, check_weight
from momentalign.functional import alignment, derivative_gram, domain_derivatives, domain_gram
from tests.bad_batches import BAD, BAD_TARGETS, GOOD, N, changed


@pytest.mark.parametrize(("error", "name", "value"), BAD)
def test_bad_inputs_are_named(error: type[Exception], name: str, value: object) -> None:
    inputs = changed(**{name: value})
    for function in (alignment, domain_gram, domain_derivatives):
        with pytest.raises(error, match=f"^'{name}' should"):
            function(1, *inputs)
    if name != "domains":
        with pytest.raises(error, match=f"^'{name}' should"):
            derivative_gram(1, *inputs[:3])


@pytest.mark.parametrize(("loss", "outputs", "targets", "name"), BAD_TARGETS)
def test_targets_fit_the_loss(loss: str, outputs: int, targets: Tensor, name: str) -> None:
    with pytest.raises(ValueError, match=f"^'{name}' should"):
        alignment(1, *changed(logits=torch.zeros(N, outputs), targets=targets), loss=loss)


@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        ("cross_entropy", torch.tensor([0, 1, 1, 1], dtype=torch.uint8)),
        ("logistic", torch.tensor([True, False, True, True])),
        ("logistic", torch.tensor([0.1, 0.9, 1.0, 0.0])),
        ("squared_error", torch.tensor([1, 2, 3, 4])),
    ],
)
def test_targets_of_other_types_that_fit(loss: str, targets: Tensor) -> None:
    logits = torch.linspace(-1, 1, 8).reshape(4, 2)[:, : 2 if loss == "cross_entropy" else 1]
    inputs = torch.ones(4, 2), logits, targets, torch.tensor([0, 0, 1, 1], dtype=torch.int32)
    wide = targets.long() if loss == "cross_entropy" else targets.float()
    expected = alignment(1, *inputs[:2], wide, inputs[3].long(), loss=loss)
    assert alignment(1, *inputs, loss=loss) == expected > 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"order": 0}, "'order' .*'cross_entropy'.* 0"),
        ({"order": 4}, "'order' .* 4.*'logistic'"),
        ({"order": -1, "loss": "logistic"}, "'order' .*'logistic'.* -1"),
        ({"route": "gramm"}, "'route' .*'gramm'.*'gram'"),
        ({"route": None}, "'route' .* None"),
        ({"loss": "cross-entropy"}, "'loss' .*'cross-entropy'.*'cross_entropy'"),
        ({"order": 3, "route": "pairwise"}, "'pairwise' .* 3"),
        ({"order": 3, "route": "direct"}, "'cross_entropy'.* 3"),
    ],
)
def test_names_and_orders(arguments: dict[str, object], named: str) -> None:
    for function in (alignment, domain_gram):
        with pytest.raises(ValueError, match=named):
            function(**{"order": 1, **GOOD, **arguments})
        for order in (1.0, True):
            with pytest.raises(TypeError, match=f"'order' .* {order}"):
                function(**{**GOOD, "order": order})


def test_direct_refuses_a_tensor_that_is_too_large() -> None:
    inputs = torch.zeros(4, 1000), torch.zeros(4, 1), torch.zeros(4), torch.tensor([0, 0, 1, 1])
    with pytest.raises(ValueError, match=r"1e\+09 .*'gram'"):
        alignment(3, *inputs, loss="logistic", route="direct")
    with pytest.raises(ValueError, match=r"1e\+09 .*domain_gram"):
        domain_derivatives(3, *inputs, loss="logistic")
    assert alignment(3, *inputs, loss="logistic") == 0


@pytest.mark.parametrize("function", [alignment, domain_gram, domain_derivatives])
def test_no_rows(function: Callable[..., Tensor]) -> None:
    with pytest.raises(ValueError, match="'features' should have at least one row"):
        function(1, *(tensor[:0] for tensor in GOOD.values()))


at_least_two = partial(check_count, least=2)


@pytest.mark.parametrize(
    ("check", "value", "error"),
    [
        *((check_weight, value, ValueError) for value in (-1, nan)),
        (check_nonnegative, -1, ValueError),
        *((check_weight, value, TypeError) for value in ("1", True)),
        *((check_decay, value, ValueError) for value in (1.0, -0.1)),
        (at_least_two, 1, ValueError),
        (at_least_two, 2.0, TypeError),
    ],
)
def test_numbers(check: Callable[[str, object], object], value: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"'it' .* {value!r}"):
        check("it", value)


def test_values_are_read_on_cpu_or_on_request_and_never_while_compiling() -> None:
    here, nowhere = torch.zeros(1, 1), torch.zeros(1, 1, device="meta")
    assert [checks_values(validate, here) for validate in (None, True, False)] == [True, True, False]
    assert [checks_values(validate, nowhere) for validate in (None, True, False)] == [False, True, False]
    compiled = torch.compile(lambda x: x + checks_values(True, x), fullgraph=True, backend="eager")
    assert compiled(here).item() == 0
