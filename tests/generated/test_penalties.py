"""Every penalty against its definition, and what should not change it, over generated batches."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import assume
from hypothesis import strategies as st
from torch import Tensor

from momentalign import CMA, CORAL, HGP, IRM, MMD, Fishr, Hutchinson, MomentAlignment, VREx
from momentalign.functional import alignment, derivative_gram, domain_derivatives, domain_gram
from momentalign.penalties import DomainPenalty
from tests.generated import oracles
from tests.generated.cases import answer, cases
from tests.generated.strategies.tensors import LOSSES, GeneratedBatch, batches, odd_tensors, seeds

pytestmark = pytest.mark.filterwarnings("ignore:All .* of domain:UserWarning", "ignore:All targets are:UserWarning")

SCALINGS = ("none", "classes", "parameters", "relative")
ROUTES = ("auto", "gram", "direct", "pairwise")
scalings = st.sampled_from(SCALINGS)

Inputs = tuple[Tensor, ...]
Definition = Callable[[GeneratedBatch, Inputs], oracles.Term]
Change = Callable[[GeneratedBatch, torch.Generator], Inputs]


def eps_of(batch: GeneratedBatch) -> float:
    """Rounding of the batch's type."""
    return torch.finfo(batch.dtype).eps


def assert_defined(
    penalty: DomainPenalty, definition: Definition, batch: GeneratedBatch, term: str, power: int
) -> None:
    """Equal to the definition to rounding; where a power of the features' squared length overflows, not a number."""
    inputs = batch.rounded
    expected, magnitude = (float(number) for number in definition(batch, inputs))
    limits = torch.finfo(batch.dtype)
    computed = batch.inputs
    assert computed[0].isfinite().all()
    found = penalty.terms(*computed)[term]
    assert found.dtype == batch.dtype
    size = (1 + float(inputs[0].square().sum(1).max())) ** power
    if max(magnitude, size) > limits.max / 1e6:
        return
    assert found.isfinite()
    assert found >= 0 or isinstance(penalty, IRM)
    # torch.func differentiates saturated logits to 1e-16 of one, not of the result.
    tolerance = 400 * (limits.eps * magnitude + 1e-16 * (magnitude * size) ** 0.5 + 1e-32 * size) + limits.tiny
    assert abs(float(found) - expected) <= tolerance, f"{float(found)} for {expected}, tolerance {tolerance}"


def assert_differentiated(
    penalty: DomainPenalty, definition: Definition, batch: GeneratedBatch, reaches: str = "both"
) -> None:
    """Gradients in float64 like those of the definition."""
    features, logits, targets, domains = batch.rounded
    features.requires_grad_()
    logits.requires_grad_()
    wanted = {"both": (features, logits), "features": (features,), "logits": (logits,)}[reaches]
    expected, magnitude = definition(batch, (features, logits, targets, domains))
    found = penalty(features, logits, targets, domains)
    if not found.requires_grad:
        assert not expected.requires_grad
        return
    ours = torch.autograd.grad(found, wanted, allow_unused=True, materialize_grads=True)
    theirs = torch.autograd.grad(expected, wanted, allow_unused=True, materialize_grads=True)
    for one, other, by in zip(ours, theirs, wanted, strict=True):
        scale = by.detach().abs().max() if by is features else 1.0
        assert one.isfinite().all()
        assert ((one - other).abs() * scale).max() <= 1e-9 * (magnitude + found.detach().abs()) + 1e-200


def aligned(order: int, scaling: str) -> Definition:
    return lambda batch, inputs: oracles.alignment(order, scaling, batch.loss, batch.bias, *inputs)


@cases(
    batch=batches(),
    order=st.integers(1, 3),
    scaling=scalings,
    route=st.sampled_from(ROUTES),
)
def test_alignment(batch: GeneratedBatch, order: int, scaling: str, route: str) -> None:
    route = "gram" if order > 2 and (route == "pairwise" or batch.loss == "cross_entropy") else route
    penalty = MomentAlignment({order: 1.0}, scaling=scaling, route=route, **batch.options)
    name = {1: "gradient", 2: "hessian"}.get(order, f"order_{order}")
    if scaling == "relative":
        # Residuals near 0 are 0 by definition there, and torch.func loses their digits.
        residual = oracles.residuals(order, batch.loss, *batch.rounded[1:3]).flatten(1).square().sum(1)
        assume(residual.min() > 1e-4)
    assert_defined(penalty, aligned(order, scaling), batch, name, 0 if scaling == "relative" else order)


@cases(batch=batches(exponents=(-3, 3), saturation=(0.0, 1.0, 3.0)), order=st.integers(1, 3), scaling=scalings)
def test_gradients_of_alignment(batch: GeneratedBatch, order: int, scaling: str) -> None:
    penalty = MomentAlignment({order: 1.0}, scaling=scaling, **batch.options)
    assert_differentiated(penalty, aligned(order, scaling), batch)


OTHERS: dict[str, tuple[Callable[..., DomainPenalty], str, Definition, int]] = {
    "fishr": (
        lambda **options: Fishr(momentum=0.0, **options),
        "gradient_variance",
        lambda batch, inputs: oracles.fishr(batch.loss, batch.bias, *inputs),
        2,
    ),
    "irm": (IRM, "gradient_norm", lambda batch, inputs: oracles.irm(batch.loss, batch.bias, *inputs), 1),
    "hgp": (HGP, "hessian", lambda batch, inputs: oracles.hgp(batch.loss, batch.bias, "mean", *inputs), 3),
    "hgp-product": (
        lambda **options: HGP(center="product", **options),
        "hessian",
        lambda batch, inputs: oracles.hgp(batch.loss, batch.bias, "product", *inputs),
        3,
    ),
    "hutchinson": (Hutchinson, "hessian", lambda batch, inputs: oracles.hutchinson(batch.loss, batch.bias, *inputs), 2),
    "vrex": (VREx, "loss_variance", lambda batch, inputs: oracles.vrex(batch.loss, *inputs[1:]), 0),
    "coral-mean": (CORAL, "mean", lambda batch, inputs: oracles.coral(inputs[0], inputs[3], eps_of(batch))[0], 1),
    "coral": (CORAL, "covariance", lambda batch, inputs: oracles.coral(inputs[0], inputs[3], eps_of(batch))[1], 2),
    "mmd": (MMD, "discrepancy", lambda batch, inputs: oracles.mmd(inputs[0], inputs[3], eps_of(batch)), 0),
}


@cases(batch=batches(), name=st.sampled_from(sorted(OTHERS)))
def test_other_penalties(batch: GeneratedBatch, name: str) -> None:
    make, term, definition, power = OTHERS[name]
    assert_defined(make(**batch.options), definition, batch, term, power)


@cases(batch=batches(exponents=(-2, 2), saturation=(0.0, 1.0, 3.0)), name=st.sampled_from(["fishr", "irm", "vrex"]))
def test_gradients_of_other_penalties(batch: GeneratedBatch, name: str) -> None:
    make, _, definition, _ = OTHERS[name]
    assert_differentiated(make(**batch.options), definition, batch, "logits" if name == "vrex" else "both")


@cases(
    batch=batches(saturation=(10.0, 100.0, 1e3, 1e4), exponents=(-3, 3)),
    order=st.integers(1, 3),
    route=st.sampled_from(["gram", "direct"]),
)
def test_saturated_logits_keep_their_digits(batch: GeneratedBatch, order: int, route: str) -> None:
    route = "gram" if order > 2 and batch.loss == "cross_entropy" else route
    options: dict[str, Any] = {**batch.options, "route": route}
    features, logits, targets, domains = (
        tensor.float() if tensor.is_floating_point() else tensor for tensor in batch.inputs
    )
    single = alignment(order, features, logits, targets, domains, **options)
    double = alignment(order, features.double(), logits.double(), targets, domains, **options)
    gram = domain_gram(order, features.double(), logits.double(), targets, domains, **options)
    assume(float(gram.diagonal().max()) < 1e30)
    assert abs(float(single) - float(double)) <= 1e-4 * float(gram.diagonal().max()) + 1e-30


PENALTIES: dict[str, Callable[..., DomainPenalty]] = {
    "cma": CMA,
    "cma-direct": lambda **options: CMA(route="direct", **options),
    "cma-relative": lambda **options: CMA(scaling="relative", **options),
    "cma-momentum": lambda **options: CMA(momentum=0.5, **options),
    "third": lambda **options: MomentAlignment({1: 1.0, 3: 1.0}, **options),
    "fishr": Fishr,
    "irm": IRM,
    "hgp": HGP,
    "hgp-product": lambda **options: HGP(center="product", **options),
    "hutchinson": Hutchinson,
    "vrex": VREx,
    "coral": CORAL,
    "mmd": MMD,
}
names = st.sampled_from(sorted(PENALTIES))
moderate = batches(exponents=(-2, 2), dtypes=(torch.float64,), saturation=(0.0, 1.0, 3.0, 30.0))


def shuffled(batch: GeneratedBatch, generator: torch.Generator) -> Inputs:
    order = torch.randperm(len(batch.features), generator=generator)
    return tuple(tensor[order] for tensor in batch.inputs)


def renamed(batch: GeneratedBatch, generator: torch.Generator) -> Inputs:
    labels, index = batch.domains.unique(return_inverse=True)
    other = torch.randperm(100, generator=generator)[: len(labels)] * 2**33 - 50
    return (*batch.inputs[:3], other[index])


def shifted(batch: GeneratedBatch, generator: torch.Generator) -> Inputs:
    features, logits, targets, domains = batch.inputs
    assume(batch.loss == "cross_entropy" and logits.abs().max() < 30)
    shift = torch.randn(len(logits), 1, generator=generator, dtype=logits.dtype)
    return features, logits + 10 * shift, targets, domains


def split_feature(batch: GeneratedBatch, _: torch.Generator) -> Inputs:
    features, *rest = batch.inputs
    return torch.cat([0.6 * features[:, :1], features[:, 1:], -0.8 * features[:, :1]], 1), *rest


def twice(batch: GeneratedBatch, _: torch.Generator) -> Inputs:
    return tuple(torch.cat([tensor, tensor]) for tensor in batch.inputs)


CHANGES: dict[Change, set[str]] = {
    shuffled: set(),
    renamed: set(),
    shifted: set(),
    split_feature: {"cma-momentum", "fishr", "hutchinson", "vrex", "coral"},
    twice: {"coral"},  # whose covariances divide by n − 1
}
"""Changes of a batch, and the penalties whose value they change."""


@pytest.mark.parametrize("change", CHANGES)
@cases(batch=moderate, name=names, seed=seeds)
def test_what_does_not_matter(change: Change, batch: GeneratedBatch, name: str, seed: int) -> None:
    assume(name not in CHANGES[change])
    penalty = PENALTIES[name]
    changed = change(batch, torch.Generator().manual_seed(seed))
    expected, found = (float(penalty(**batch.options)(*inputs)) for inputs in (batch.inputs, changed))
    size = 1 + float(batch.features.abs().max())
    assert abs(found - expected) <= 1e-9 * expected + 1e-13 * size**6


@cases(
    first=moderate,
    second=moderate,
    third=moderate,
    name=st.sampled_from(["cma-momentum", "fishr"]),
    fixed=st.booleans(),
)
def test_a_past_of_any_batches(
    first: GeneratedBatch, second: GeneratedBatch, third: GeneratedBatch, name: str, fixed: bool
) -> None:
    options: dict[str, Any] = dict(first.options)
    if fixed:
        options["num_domains"] = 5
    penalty = PENALTIES[name](**options)
    for batch in (first, second, third):
        features, logits, targets, domains = batch.inputs
        domains = domains.abs() % 5 if fixed else domains
        inputs = features, logits, targets, domains
        found = answer(lambda inputs=inputs: penalty(*inputs))
        assert found is None or (found.isfinite() and found >= 0)


ROWS = 6
odd_arguments = st.dictionaries(
    st.sampled_from(["features", "logits", "targets", "domains"]), odd_tensors(ROWS), max_size=2
)


def arguments(loss: str, given: dict[str, Any]) -> tuple[Any, ...]:
    """A good batch with some of its tensors replaced."""
    outputs = 1 if loss == "logistic" else 3
    good = {
        "features": torch.arange(12.0).reshape(ROWS, 2) / 12,
        "logits": torch.linspace(-1, 1, ROWS * outputs).reshape(ROWS, outputs),
        "targets": torch.zeros(ROWS, 3) if loss == "squared_error" else torch.tensor([0, 1, 0, 1, 1, 0]),
        "domains": torch.tensor([0, 0, 0, 1, 1, 1]),
    }
    return tuple((good | given).values())


@cases(
    given=odd_arguments,
    name=names,
    loss=st.sampled_from(LOSSES),
    validate=st.sampled_from([None, None, True]),
    num_domains=st.sampled_from([None, 2]),
)
def test_a_penalty_refuses_anything_else_in_words(
    given: dict[str, Any], name: str, loss: str, validate: bool | None, num_domains: int | None
) -> None:
    penalty = PENALTIES[name](loss=loss, validate=validate, num_domains=num_domains)
    found = answer(lambda: penalty(*arguments(loss, given)))
    assert found is None or (found.shape == () and found.isfinite())


@cases(
    given=odd_arguments,
    order=st.sampled_from([1, 1, 2, 0, 5]),
    loss=st.sampled_from(LOSSES),
    route=st.sampled_from(ROUTES),
)
def test_a_function_refuses_anything_else_in_words(given: dict[str, Any], order: int, loss: str, route: str) -> None:
    inputs = arguments(loss, given)
    results = [
        answer(lambda: alignment(order, *inputs, loss=loss, route=route)),
        answer(lambda: alignment(order, *inputs, loss=loss, route=route, unbiased=True)),
        answer(lambda: domain_gram(order, *inputs, loss=loss, route=route)),
        answer(lambda: derivative_gram(order, *inputs[:3], loss=loss)),
        answer(lambda: domain_derivatives(order, *inputs, loss=loss)),
    ]
    assert not any(result is not None and result.isnan().any() for result in results)
