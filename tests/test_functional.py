from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor

from momentalign._batch import HeadBatch
from momentalign._dispatch import resolve_route, spreads
from momentalign.closed_form import HEADS, sample_grams
from momentalign.functional import alignment, derivative_gram, domain_derivatives, domain_gram
from tests.references import (
    CASES_AND_ORDERS,
    LABELS,
    LOSSES,
    LOSSES_AND_ORDERS,
    Case,
    ReferenceBatch,
    assert_equal,
    dense_derivatives,
    make_batch,
    routes,
    solved,
)

pytestmark = pytest.mark.slow

each_route = pytest.mark.parametrize(
    ("loss", "order", "route"), [(*pair, route) for pair in LOSSES_AND_ORDERS for route in routes(*pair)]
)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("loss", "order"), LOSSES_AND_ORDERS)
def test_derivative_gram_is_that_of_single_samples(loss: str, order: int, bias: bool) -> None:
    batch = make_batch(loss, 3, bias=bias)
    dense = dense_derivatives(order, loss, batch.features, batch.head, batch.targets, torch.arange(3))
    found = derivative_gram(order, *batch.inputs[:3], **batch.keywords)
    assert_equal(found, dense @ dense.T)
    assert torch.equal(found, found.T)


@pytest.mark.parametrize(("case", "order"), CASES_AND_ORDERS, ids=str)
def test_grams_alignment_and_derivatives_are_those_of_dense_tensors(case: Case, order: int) -> None:
    batch, dense = solved(case, order)
    spread = (dense - dense.mean(0)).square().sum(1).mean()
    for route in routes(case.loss, order):
        assert_equal(domain_gram(order, *batch.inputs, **batch.keywords, route=route), dense @ dense.T)
        assert_equal(alignment(order, *batch.inputs, **batch.keywords, route=route), spread)
    if "direct" in routes(case.loss, order):
        found = domain_derivatives(order, *batch.inputs, **batch.keywords)
        assert found.shape == (3, *[batch.head.numel()] * order)
        assert_equal(found.flatten(1), dense)
    else:
        with pytest.raises(ValueError, match=rf"'order' .* {order}.* domain_gram"):
            domain_derivatives(order, *batch.inputs, **batch.keywords)


def gradients(value: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Gradients, zero where the value does not depend on an input."""
    if not value.requires_grad:
        return tuple(torch.zeros_like(tensor) for tensor in inputs)
    return torch.autograd.grad(value, inputs, materialize_grads=True)


def test_domain_grams_come_in_ascending_order() -> None:
    batch = make_batch("cross_entropy")
    found = domain_gram(2, *batch.inputs)
    for position, label in enumerate(sorted(LABELS)):
        (own,) = domain_gram(2, *(tensor[batch.domains == label] for tensor in batch.inputs))
        assert_equal(found[position, position, None], own)


@each_route
def test_one_domain_is_aligned_exactly(loss: str, order: int, route: str) -> None:
    batch = make_batch(loss, domains=(-5,))
    assert domain_gram(order, *batch.inputs, loss=loss, route=route).shape == (1, 1)
    assert alignment(order, *batch.inputs, loss=loss, route=route).item() == 0
    assert alignment(order, *batch.inputs, loss=loss, route=route, unbiased=True).item() == 0


def unbiased_by_loops(order: int, batch: ReferenceBatch) -> Tensor:
    gram = derivative_gram(order, *batch.inputs[:3], **batch.keywords)
    rows = [(batch.domains == label).nonzero()[:, 0].tolist() for label in batch.domains.unique()]
    means = [[torch.stack([gram[i, j] for i in e for j in f if i != j]).mean() for f in rows] for e in rows]
    count = len(rows)
    total = sum(means[e][f] for e in range(count) for f in range(count))
    return sum(means[e][e] for e in range(count)) / count - total / count**2


@each_route
def test_unbiased_leaves_out_the_pairs_of_a_sample_with_itself(loss: str, order: int, route: str) -> None:
    batch = make_batch(loss)
    found = alignment(order, *batch.inputs, **batch.keywords, route=route, unbiased=True)
    assert_equal(found, unbiased_by_loops(order, batch))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_unbiased_is_right_on_average_over_all_batches(order: int) -> None:
    population = make_batch("cross_entropy", 6, domains=(0, 1), balance="balanced")
    members = [(population.domains == label).nonzero()[:, 0].tolist() for label in (0, 1)]
    # Every batch of two draws a domain, with replacement: 81 of them, all as likely.
    batches = [torch.tensor(rows) for rows in product(*members, *members)]

    def average(unbiased: bool) -> Tensor:
        drawn = [[tensor[rows] for tensor in population.inputs] for rows in batches]
        return torch.stack([alignment(order, *batch, unbiased=unbiased) for batch in drawn]).mean()

    truth = alignment(order, *population.inputs)
    assert_equal(average(unbiased=True), truth)
    assert average(unbiased=False) > 1.2 * truth


def test_unbiased_needs_two_samples_of_every_domain() -> None:
    batch = make_batch("cross_entropy", balance="single")
    with pytest.raises(ValueError, match=r"two samples .* domain 3"):
        alignment(1, *batch.inputs, unbiased=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_arithmetic_is_float32_at_least(dtype: torch.dtype) -> None:
    features, logits, targets, domains = make_batch("cross_entropy").inputs
    features, logits = features.to(dtype), logits.to(dtype)
    wide = torch.promote_types(dtype, torch.float32)
    for function in (alignment, domain_gram, domain_derivatives):
        found = function(2, features, logits, targets, domains)
        assert found.dtype == wide
        assert torch.equal(found, function(2, features.to(wide), logits.to(wide), targets, domains))


# Tracing a custom autograd function, torch instantiates its base class and warns of that itself.
@pytest.mark.filterwarnings("ignore:.*Function'> should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("route", ["gram", "auto"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiles_to_one_graph(backend: str, loss: str, route: str) -> None:
    torch.compiler.reset()
    compiled = torch.compile(alignment, fullgraph=True, backend=backend)
    batch = make_batch(loss)
    orders = (1, 2, 3) if route == "gram" else (2,)
    for order in orders:
        values, slopes = [], []
        for function in (compiled, alignment):
            features, logits = (tensor.clone().requires_grad_() for tensor in (batch.features, batch.logits))
            value = function(order, features, logits, batch.targets, batch.domains, loss=loss, route=route)
            values.append(value.detach())
            slopes.append(torch.cat(gradients(value, features, logits), 1))
        assert_equal(*values)
        assert_equal(*slopes)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_gram_route_reads_nothing(loss: str) -> None:
    # Tensors of the meta device have no values: reading one raises.
    batch = HeadBatch(*(tensor.to("meta") for tensor in make_batch(loss).inputs))
    for order in (1, 2, 3):
        (value,), _ = spreads("gram", [order], batch, loss=loss, bias=True)
        assert value.shape == ()
        residuals = HEADS[loss](batch.logits, batch.targets)
        assert sample_grams([order], residuals, batch.features, bias=True)[order].shape == (21, 21)


@pytest.mark.parametrize(
    "function",
    [
        alignment,
        lambda *inputs: alignment(*inputs, unbiased=True),
        domain_gram,
        lambda order, features, logits, targets, _: derivative_gram(order, features, logits, targets),
        lambda _, *inputs: domain_derivatives(2, *inputs),
    ],
    ids=["alignment", "unbiased", "domain_gram", "derivative_gram", "domain_derivatives"],
)
def test_overflow_is_an_error_in_words(function: Callable[..., Tensor]) -> None:
    inputs = torch.full((4, 2), 1e30), torch.zeros(4, 2), torch.tensor([0, 1, 0, 0]), torch.tensor([0, 0, 1, 1])
    with pytest.raises(ValueError, match=r"features up to 1e\+30"):
        function(1, *inputs)


@pytest.mark.parametrize(("domains", "route"), [(2, "direct"), (4000, "gram")])
def test_auto_counts_the_domains_of_a_large_batch(domains: int, route: str) -> None:
    # 4,000 domains' Hessians would take gigabytes.
    labels = torch.arange(4000) % domains
    batch = HeadBatch(torch.zeros(4000, 50), torch.zeros(4000, 2), torch.zeros(4000, dtype=torch.long), labels)
    assert resolve_route("auto", [1, 2], batch, loss="cross_entropy", bias=True) == route
