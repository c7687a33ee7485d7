import pytest

from momentalign.closed_form import (
    DIRECT_LIMIT,
    HEADS,
    LogisticResiduals,
    Residuals,
    SoftmaxResiduals,
    SquaredErrorResiduals,
    cheapest_route,
    direct_size,
    pairwise_grams,
    sample_grams,
)
from tests.references import LOSSES, assert_equal, make_batch


@pytest.mark.parametrize("orders", [[2], [1, 2], [3]])
@pytest.mark.parametrize("residuals", [SoftmaxResiduals, LogisticResiduals, SquaredErrorResiduals])
@pytest.mark.parametrize(("dimension", "classes"), [(385, 7), (385, 65), (769, 1000)])
def test_gram_for_mini_batches_of_wide_features(
    residuals: type[Residuals], orders: list[int], dimension: int, classes: int
) -> None:
    classes = 1 if residuals is LogisticResiduals else classes
    assert cheapest_route(orders, residuals, samples=96, dimension=dimension, classes=classes) == "gram"


def test_gram_for_gradients_of_many_classes() -> None:
    assert cheapest_route([1], SoftmaxResiduals, samples=96, dimension=385, classes=1000) == "gram"
    assert cheapest_route([1], SoftmaxResiduals, samples=96, dimension=385, classes=2) == "direct"


@pytest.mark.parametrize("orders", [[1], [2], [1, 2]])
@pytest.mark.parametrize("residuals", [SoftmaxResiduals, LogisticResiduals, SquaredErrorResiduals])
def test_direct_for_full_batches_of_narrow_features(residuals: type[Residuals], orders: list[int]) -> None:
    classes = 1 if residuals is LogisticResiduals else 2
    assert cheapest_route(orders, residuals, samples=50_000, dimension=101, classes=classes) == "direct"


@pytest.mark.parametrize("orders", [[3], [1, 3], [1, 2, 3]])
def test_never_direct_for_the_third_order_of_the_softmax(orders: list[int]) -> None:
    assert cheapest_route(orders, SoftmaxResiduals, samples=10**6, dimension=2, classes=2) == "gram"
    assert cheapest_route(orders, LogisticResiduals, samples=10**6, dimension=2, classes=1) == "direct"


@pytest.mark.parametrize(("order", "fits", "too_large"), [(2, 2**14, 2**14 + 1), (4, 2**7, 2**7 + 1)])
def test_never_direct_beyond_the_largest_tensor(order: int, fits: int, too_large: int) -> None:
    for dimension, route in ((fits, "direct"), (too_large, "gram")):
        assert (direct_size(order, LogisticResiduals, dimension, 1) > DIRECT_LIMIT) == (route == "gram")
        assert cheapest_route([order], LogisticResiduals, samples=10**12, dimension=dimension, classes=1) == route


def test_many_domains_are_dear_to_build() -> None:
    batch = {"samples": 1000, "dimension": 65, "classes": 2}
    assert cheapest_route([2], SoftmaxResiduals, **batch, num_domains=2) == "direct"
    assert cheapest_route([2], SoftmaxResiduals, **batch) == "direct"
    assert cheapest_route([2], SoftmaxResiduals, **batch, num_domains=50) == "gram"


def test_never_direct_beyond_a_bounded_memory() -> None:
    # By the number of multiply-adds alone the direct route would build 4,000 domains' gradients from all rows.
    batch = {"samples": 4000, "dimension": 51, "classes": 2}
    assert cheapest_route([1, 2], SoftmaxResiduals, **batch) == "direct"
    assert cheapest_route([1, 2], SoftmaxResiduals, **batch, num_domains=4000) == "gram"
    assert cheapest_route([1], SoftmaxResiduals, samples=10**6, dimension=2, classes=2, num_domains=2) == "direct"
    assert cheapest_route([1], SoftmaxResiduals, samples=10**6, dimension=2, classes=2, num_domains=10**4) == "gram"


def test_a_long_past_is_dear_to_meet() -> None:
    batch = {"samples": 96, "dimension": 65, "classes": 2, "num_domains": 3}
    assert cheapest_route([2], SoftmaxResiduals, **batch) == "gram"
    assert cheapest_route([2], SoftmaxResiduals, **batch, past=100 * 96) == "direct"


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_traces_are_inner_products(loss: str, bias: bool) -> None:
    batch = make_batch(loss, bias=bias)
    residuals = HEADS[loss](batch.logits, batch.targets)
    found = pairwise_grams([1, 2], residuals, batch.features, bias)
    expected = sample_grams([1, 2], residuals, batch.features, bias)
    assert sorted(found) == [1, 2]
    for order in (1, 2):
        assert_equal(found[order], expected[order], 1e-12)


@pytest.mark.parametrize("samples", [0, 1, 4, 20])
def test_blocks_do_not_change_traces(samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = make_batch("cross_entropy", C=4)
    residuals = HEADS["cross_entropy"](batch.logits, batch.targets)
    expected = pairwise_grams([2], residuals, batch.features, True)[2]
    monkeypatch.setattr("momentalign.closed_form._routes._ENTRIES", samples * 4**2)
    assert_equal(pairwise_grams([2], residuals, batch.features, True)[2], expected, 1e-14)
