import re
from collections.abc import Callable
from math import inf, nan

import pytest
import torch
from torch import Tensor

from momentalign._batch import check_batch, checks_values
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


ONE_PER_ROW = "should have one entry per row of 'features' (64), but has shape"
BAD_VALUES = [
    ("domains", torch.zeros(63).long(), f"{ONE_PER_ROW} (63,)."),
    ("targets", torch.zeros(65).long(), f"{ONE_PER_ROW} (65,)."),
    ("logits", torch.zeros(1, 3), f"{ONE_PER_ROW} (1, 3)."),
    ("domains", torch.tensor(0), f"{ONE_PER_ROW} ()."),
    ("features", torch.zeros(64), "should have shape (n, d), but has shape (64,)."),
    ("features", torch.tensor(1.0), "should have shape (n, d), but has shape ()."),
    ("features", torch.zeros(64, 0), "should have shape (n, d), but has shape (64, 0)."),
    ("logits", torch.zeros(64), "should have shape (n, C), but has shape (64,)."),
    ("domains", torch.zeros(64, 1).long(), "should have shape (64,), but has shape (64, 1)."),
    ("targets", torch.zeros(64, 3).long(), "should have shape (64,), but has shape (64, 3)."),
    ("logits", torch.zeros(64, 1), "at least 2 columns for loss 'cross_entropy', but has 1. Use loss='logistic'"),
    ("logits", torch.zeros(64, 3, device="meta"), "should be on cpu like 'features', but is on meta."),
    ("domains", torch.zeros(64, device="meta").long(), "should be on cpu like 'features', but is on meta."),
    ("features", with_entry("features", nan), "should be finite, but has 10 NaN or infinite, first in row 57."),
    ("features", with_entry("features", inf), "should be finite, but has 10 NaN or infinite, first in row 57."),
    ("logits", with_entry("logits", -inf), "should be finite, but has 6 NaN or infinite, first in row 57."),
    ("targets", with_entry("targets", 3), "should lie between 0 and 2 for loss 'cross_entropy' and logits of"),
    ("targets", with_entry("targets", -1), "of shape (64, 3), but lie between -1 and 0."),
]
BAD_TYPES = [
    ("features", [[1.0]] * N, "should be a torch.Tensor, but is a list. Use torch.as_tensor()."),
    ("domains", ["a"] * N, "but is a list. Use torch.as_tensor(pandas.factorize(domains)[0])."),
    ("domains", None, "should be a torch.Tensor, but is a NoneType."),
    ("features", torch.zeros(64, 5).long(), "should hold floating-point numbers, but holds torch.int64."),
    ("targets", torch.zeros(64), "should hold class indices (integers), but holds torch.float32."),
    ("targets", torch.zeros(64).bool(), "should hold class indices (integers), but holds torch.bool."),
    ("domains", torch.zeros(64), "should hold integers, but holds torch.float32. Use domains.long()."),
    ("domains", torch.zeros(64).bool(), "should hold integers, but holds torch.bool. Use domains.long()."),
    ("domains", torch.zeros(64, dtype=torch.uint16), "holds torch.uint16. Use domains.long()."),
    ("targets", torch.zeros(64, dtype=torch.uint64), "holds torch.uint64. Use targets.long()."),
    ("features", torch.zeros(64, 5).cfloat(), "but holds torch.complex64. Use features.real."),
    ("logits", torch.zeros(64, 3).to(torch.float8_e4m3fn), "of 16, 32 or 64 bits, but holds torch.float8_e4m3fn."),
    ("features", torch.zeros(64, 5).to_sparse(), "dense, but has layout torch.sparse_coo. Use features.to_dense()."),
    ("logits", torch.eye(64).to_sparse_coo(), "should be dense, but has layout torch.sparse_coo."),
    ("domains", torch.zeros(64).long().to_sparse(), "should be dense, but has layout torch.sparse_coo."),
    (
        "features",
        torch.nested.nested_tensor([torch.zeros(32, 5)] * 2, layout=torch.jagged),
        "should be one tensor of equal rows, but is nested. Use torch.cat(list(features)).",
    ),
]
BAD_INPUTS = [(ValueError, *bad) for bad in BAD_VALUES] + [(TypeError, *bad) for bad in BAD_TYPES]


@pytest.mark.parametrize(("error", "name", "value", "message"), BAD_INPUTS)
def test_bad_inputs_are_named(error: type[Exception], name: str, value: object, message: str) -> None:
    inputs, pattern = {**GOOD, name: value}, f"^'{name}' .*{re.escape(message)}"
    for function in (alignment, domain_gram, domain_derivatives):
        with pytest.raises(error, match=pattern):
            function(1, *inputs.values())
    if name != "domains":
        with pytest.raises(error, match=pattern):
            derivative_gram(1, *list(inputs.values())[:3])


def test_a_batch_without_values_is_refused() -> None:
    with pytest.raises(ValueError, match="'features' should hold values, but is on the meta device"):
        alignment(1, *(tensor.to("meta") for tensor in GOOD.values()))


BAD_TARGETS = [
    ("logistic", 2, torch.zeros(4), ValueError, "should have shape (n, 1) for loss 'logistic', but has shape (4, 2)."),
    (
        "logistic",
        1,
        torch.zeros(4, 1),
        ValueError,
        "should have shape (4,), but has shape (4, 1). Use targets.flatten().",
    ),
    ("logistic", 1, torch.zeros(4).cfloat(), TypeError, "'targets' should hold 0 and 1, but holds torch.complex64."),
    ("logistic", 1, torch.tensor([0, 1, 2, 0]), ValueError, "'targets' should lie between 0 and 1 for loss 'logistic'"),
    ("logistic", 1, torch.tensor([0, 1, nan, 0]), ValueError, "but lie between nan and nan."),
    ("squared_error", 2, torch.zeros(4), ValueError, "should have the shape of 'logits' (4, 2), but has shape (4,)."),
    ("squared_error", 2, torch.zeros(4, 2).bool(), TypeError, "should hold real numbers, but holds torch.bool."),
    ("squared_error", 1, torch.zeros(4, dtype=torch.uint32), TypeError, "holds torch.uint32. Use targets.float()."),
    ("logistic", 1, torch.zeros(4, dtype=torch.uint32), TypeError, "holds torch.uint32. Use targets.long()."),
    ("squared_error", 1, torch.tensor([0, inf, 0, 0]), ValueError, "'targets' should be finite"),
]


@pytest.mark.parametrize(("loss", "outputs", "targets", "error", "message"), BAD_TARGETS)
def test_targets_fit_the_loss(loss: str, outputs: int, targets: Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
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
        ({"order": 0}, ValueError, r"'order' should be between 1 and 4 for loss 'cross_entropy', but is 0\.$"),
        ({"order": 5}, ValueError, r"but is 5\. One logit with loss='logistic' takes any order\."),
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
    inputs = {**GOOD, "domains": with_entry("domains", 3)}
    with pytest.raises(ValueError, match=r"between 0 and 2 with num_domains=3, but lie between 0 and 3\."):
        check_batch(**inputs, loss="cross_entropy", num_domains=3, validate=True)
    assert check_batch(**inputs, loss="cross_entropy", num_domains=4, validate=True).domains is inputs["domains"]
    assert check_batch(**inputs, loss="cross_entropy", num_domains=3, validate=False).domains is inputs["domains"]


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
