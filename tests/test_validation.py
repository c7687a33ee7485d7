from collections.abc import Callable
from math import inf, nan

import pytest
import torch
from torch import Tensor

from momentalign._batch import check_domain_range, checks_values
from momentalign._validation import SCALINGS, check_choice, check_count, check_decay, check_nonnegative, check_weight
from momentalign.functional import alignment, derivative_gram, domain_derivatives, domain_gram

N = 64
GOOD = {
    "features": torch.zeros(N, 5),
    "logits": torch.zeros(N, 3),
    "targets": torch.zeros(N, dtype=torch.long),
    "domains": torch.zeros(N, dtype=torch.long),
}


def with_entry(name: str, value: float) -> Tensor:
    tensor = GOOD[name].clone()
    tensor[-7:-5] = value
    return tensor


BAD_VALUES = [
    ("domains", torch.zeros(63).long()),
    ("targets", torch.zeros(65).long()),
    ("logits", torch.zeros(1, 3)),
    ("domains", torch.tensor(0)),
    ("features", torch.zeros(64)),
    ("features", torch.tensor(1.0)),
    ("features", torch.zeros(64, 0)),
    ("logits", torch.zeros(64)),
    ("domains", torch.zeros(64, 1).long()),
    ("targets", torch.zeros(64, 3).long()),
    ("logits", torch.zeros(64, 1)),
    ("logits", torch.zeros(64, 3, device="meta")),
    ("features", with_entry("features", nan)),
    ("features", with_entry("features", inf)),
    ("logits", with_entry("logits", -inf)),
    ("targets", with_entry("targets", 3)),
    ("targets", with_entry("targets", -1)),
]
BAD_TYPES = [
    ("features", [[1.0]] * N),
    ("domains", ["a"] * N),
    ("domains", None),
    ("features", torch.zeros(64, 5).long()),
    ("targets", torch.zeros(64)),
    ("domains", torch.zeros(64)),
    ("domains", torch.zeros(64).bool()),
    ("features", torch.zeros(64, 5).cfloat()),
]
BAD_INPUTS = [(ValueError, *bad) for bad in BAD_VALUES] + [(TypeError, *bad) for bad in BAD_TYPES]


@pytest.mark.parametrize(("error", "name", "value"), BAD_INPUTS)
def test_bad_inputs_are_named(error: type[Exception], name: str, value: object) -> None:
    inputs = {**GOOD, name: value}
    for function in (alignment, domain_gram, domain_derivatives):
        with pytest.raises(error, match=f"^'{name}' should"):
            function(1, *inputs.values())
    if name != "domains":
        with pytest.raises(error, match=f"^'{name}' should"):
            derivative_gram(1, *list(inputs.values())[:3])


BAD_TARGETS = [
    ("logistic", 2, torch.zeros(4), "logits"),
    ("logistic", 1, torch.zeros(4, 1), "targets"),
    ("logistic", 1, torch.tensor([0, 1, 2, 0]), "targets"),
    ("logistic", 1, torch.tensor([0, 1, nan, 0]), "targets"),
    ("squared_error", 2, torch.zeros(4), "targets"),
    ("squared_error", 1, torch.tensor([0, inf, 0, 0]), "targets"),
]


@pytest.mark.parametrize(("loss", "outputs", "targets", "name"), BAD_TARGETS)
def test_targets_fit_the_loss(loss: str, outputs: int, targets: Tensor, name: str) -> None:
    with pytest.raises(ValueError, match=f"^'{name}' should"):
        alignment(1, torch.zeros(4, 2), torch.zeros(4, outputs), targets, torch.zeros(4).long(), loss=loss)


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
    ("arguments", "error", "message"),
    [
        ({"order": 0}, ValueError, r"'order' should be between 1 and 3 for loss 'cross_entropy', but is 0\.$"),
        ({"order": 4}, ValueError, r"but is 4\. One logit with loss='logistic' takes any order\."),
        ({"order": -1, "loss": "logistic"}, ValueError, r"'order' should be at least 1 for loss 'logistic', but is -1"),
        ({"order": 1.0}, TypeError, r"'order' should be an integer, but is 1\.0"),
        ({"order": True}, TypeError, r"'order' should be an integer, but is True"),
        (
            {"route": "gramm"},
            ValueError,
            r"'auto', 'gram', 'direct', 'pairwise', but is 'gramm'\. Did you mean 'gram'\?",
        ),
        ({"route": None}, ValueError, r"'route' should be one of .*, but is None\.$"),
        ({"loss": "cross-entropy"}, ValueError, r"'loss' should be one of .* Did you mean 'cross_entropy'\?"),
        ({"loss": "zzz"}, ValueError, r"'cross_entropy', 'logistic', 'squared_error', but is 'zzz'\.$"),
        ({"order": 3, "route": "pairwise"}, ValueError, r"'pairwise' takes orders 1 and 2, but got 3\. Use"),
        ({"order": 3, "route": "direct"}, ValueError, r"orders 1 and 2 of loss 'cross_entropy', but got 3"),
    ],
)
def test_names_and_orders(arguments: dict[str, object], error: type[Exception], message: str) -> None:
    for function in (alignment, domain_gram):
        with pytest.raises(error, match=message):
            function(**{"order": 1, **GOOD, **arguments})


def test_scaling_is_one_of_four() -> None:
    with pytest.raises(
        ValueError, match=r"'scaling' should be one of .*, but is 'relativ'\. Did you mean 'relative'\?"
    ):
        check_choice("scaling", "relativ", SCALINGS)
    assert [check_choice("scaling", name, SCALINGS) for name in SCALINGS] == [
        "none",
        "classes",
        "parameters",
        "relative",
    ]


def test_direct_refuses_a_tensor_that_is_too_large() -> None:
    inputs = torch.zeros(4, 1000), torch.zeros(4, 1), torch.zeros(4), torch.tensor([0, 0, 1, 1])
    with pytest.raises(ValueError, match=r"1e\+09 numbers .*order 3, d = 1001, C = 1.* Use route='gram'\."):
        alignment(3, *inputs, loss="logistic", route="direct")
    with pytest.raises(ValueError, match=r"order 3 has 1e\+09 entries here, .* Use domain_gram\(\)"):
        domain_derivatives(3, *inputs, loss="logistic")
    assert alignment(3, *inputs, loss="logistic") == 0


@pytest.mark.parametrize("function", [alignment, domain_gram, domain_derivatives])
def test_no_rows(function: Callable[..., Tensor]) -> None:
    with pytest.raises(ValueError, match=r"'features' should have at least one row, but has none\."):
        function(1, *(tensor[:0] for tensor in GOOD.values()))


def test_domains_beyond_their_number() -> None:
    with pytest.raises(ValueError, match=r"'domains' should lie between 0 and 2 with num_domains=3"):
        check_domain_range(torch.tensor([0, 3]), 3)
    check_domain_range(torch.tensor([0, 3]), 4)
    check_domain_range(torch.tensor([0, 3]), None)


@pytest.mark.parametrize(
    ("check", "value", "error", "message"),
    [
        (check_weight, -1, ValueError, r"'it' should be finite and not below 0, but is -1\. Use 0 to switch"),
        (check_weight, nan, ValueError, "but is nan"),
        (check_nonnegative, -1, ValueError, r"'it' should be finite and not below 0, but is -1\.$"),
        (check_weight, "1", TypeError, "'it' should be a number, but is '1'"),
        (check_weight, True, TypeError, "but is True"),
        (check_decay, 1.0, ValueError, r"'it' should be below 1, but is 1\.0"),
        (check_decay, -0.1, ValueError, "not below 0"),
        (lambda name, value: check_count(name, value, 2), 1, ValueError, r"'it' should be at least 2, but is 1\."),
        (lambda name, value: check_count(name, value, 2), 2.0, TypeError, r"'it' should be an integer, but is 2\.0"),
    ],
)
def test_numbers(check: Callable[[str, object], object], value: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check("it", value)


def test_values_are_read_on_cpu_or_on_request_and_never_while_compiling() -> None:
    here, nowhere = torch.zeros(1, 1), torch.zeros(1, 1, device="meta")
    assert [checks_values(validate, here) for validate in (None, True, False)] == [True, True, False]
    assert [checks_values(validate, nowhere) for validate in (None, True, False)] == [False, True, False]
    compiled = torch.compile(lambda x: x + checks_values(True, x), fullgraph=True, backend="eager")
    assert compiled(here).item() == 0
