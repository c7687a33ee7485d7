import pytest
import torch

from momentalign import MomentAlignment
from tests.penalties.agreement import assert_agrees
from tests.references import CASES, ORDERS, Case, assert_equal, dense_spread, make_batch, routes


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("route", ["auto", "gram", "direct", "pairwise"])
def test_value_and_gradients_of_every_loss_and_route(case: Case, route: str) -> None:
    # Order 4 of the cross-entropy has a test of its own: the dense derivative's graph is large.
    orders = [order for order in ORDERS[case.loss] if route in routes(case.loss, order)]
    weights = {order: 1 + order / 2 for order in orders if (case.loss, order) != ("cross_entropy", 4)}
    batch = make_batch(case.loss, balance=case.balance, bias=case.bias)
    penalty = MomentAlignment(weights, loss=case.loss, bias=case.bias, route=route)
    assert_agrees(
        penalty, lambda *inputs: sum(w * dense_spread(r, case.loss, *inputs) for r, w in weights.items()), batch
    )


def test_terms_are_unweighted_and_named() -> None:
    batch = make_batch("cross_entropy")
    penalty = MomentAlignment({3: 5.0, 1: 0.0, 2: 2.0})
    terms = penalty.terms(*batch.inputs)
    assert list(terms) == ["order_3", "gradient", "hessian"]
    inputs = batch.features, batch.head, batch.targets, batch.domains
    for order, term in zip((3, 1, 2), terms.values(), strict=True):
        assert_equal(term, dense_spread(order, "cross_entropy", *inputs))
    assert_equal(penalty(*batch.inputs), 5 * terms["order_3"] + 2 * terms["hessian"])


def test_all_weights_zero() -> None:
    batch = make_batch("cross_entropy")
    assert MomentAlignment({1: 0.0, 2: 0})(*batch.inputs).item() == 0


def test_squared_error_has_nothing_past_the_second_order() -> None:
    batch = make_batch("squared_error")
    assert MomentAlignment({3: 1.0}, loss="squared_error")(*batch.inputs).item() == 0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (({},), ValueError, r"'order_weights' should name at least one order, such as \{1: 1.0\}, but is empty"),
        (([1.0],), TypeError, r"'order_weights' should be a dictionary such as \{1: 1.0\}, but is \[1.0\]"),
        (({"1": 1.0},), TypeError, r"'order' should be an integer, but is '1'"),
        (({1.0: 1.0},), TypeError, r"'order' should be an integer, but is 1.0"),
        (({True: 1.0},), TypeError, r"'order' should be an integer, but is True"),
        (({0: 1.0},), ValueError, r"'order' should be between 1 and 3 for loss 'cross_entropy', but is 0\.$"),
        (({5: 1.0},), ValueError, r"between 1 and 3 .* but is 5\. One logit with loss='logistic' takes any order"),
        (({1: -1.0},), ValueError, r"'gradient_weight' should be finite and not below 0, but is -1.0"),
        (({3: float("nan")},), ValueError, r"'order_3_weight' should be finite and not below 0, but is nan"),
        (({2: "1"},), TypeError, r"'hessian_weight' should be a number, but is '1'"),
    ],
)
def test_bad_orders(arguments: tuple[object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        MomentAlignment(*arguments)


@pytest.mark.parametrize(
    ("orders", "options", "message"),
    [
        ([1], {"route": "grams"}, r"'route' should be one of 'auto', .* but is 'grams'\. Did you mean 'gram'\?"),
        ([1], {"scaling": None}, r"'scaling' should be one of 'none', .* 'relative', but is None"),
        ([1], {"loss": "hinge"}, r"'loss' should be one of 'cross_entropy', .* but is 'hinge'"),
        ([1], {"momentum": 1.0}, r"'momentum' should be below 1, but is 1.0"),
        ([1], {"momentum": -0.1}, r"'momentum' should be finite and not below 0, but is -0.1"),
        ([1], {"momentum": 0.5, "route": "pairwise"}, r"momentum has no 'pairwise' route\. Use 'gram'"),
        ([1, 3], {"route": "pairwise"}, r"Route 'pairwise' takes orders 1 and 2, but got 3\. Use route='gram'"),
        ([1, 3], {"route": "direct"}, r"Route 'direct' takes orders 1 and 2 .*, but got 3\. Use route='gram'"),
        ([3], {"route": "direct", "momentum": 0.5}, r"Route 'direct' takes orders 1 and 2 .* Use route='gram'"),
    ],
)
def test_bad_options(orders: list[int], options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MomentAlignment(dict.fromkeys(orders, 1.0), **options)(*make_batch("cross_entropy").inputs)


def test_direct_refuses_a_derivative_that_is_too_large() -> None:
    features, logits = torch.zeros(2, 400), torch.zeros(2, 1)
    penalty = MomentAlignment({4: 1.0}, loss="logistic", route="direct")
    with pytest.raises(ValueError, match=r"would build .* numbers for each domain .* Use route='gram'"):
        penalty(features, logits, torch.zeros(2), torch.tensor([0, 1]))
