"""Every penalty against its definition by brute force in float64: its value, and the gradients of features and head."""

from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import jacrev

from momentalign import CMA, CORAL, HGP, IRM, MMD, Fishr, Hutchinson, MomentAlignment, VREx
from momentalign._batch import HeadBatch
from tests.penalties.agreement import assert_agrees
from tests.references import (
    CASES,
    ORDERS,
    Case,
    dense_derivatives,
    dense_spread,
    domain_losses,
    linear,
    make_batch,
    routes,
    sample_losses,
)

Definition = Callable[..., Tensor]
"""Of a loss, features, head, targets and domains."""

SEED = 7
each_case = pytest.mark.parametrize("case", CASES, ids=str)


def spread(vectors: Tensor) -> Tensor:
    return (vectors - vectors.mean(0)).square().sum(1).mean()


def hessians(loss: str, features: Tensor, head: Tensor, *rest: Tensor) -> Tensor:
    return dense_derivatives(2, loss, features, head, *rest).unflatten(1, 2 * (head.numel(),))


def cma(loss: str, *inputs: Tensor) -> Tensor:
    return 0.5 * dense_spread(1, loss, *inputs) + 3 * dense_spread(2, loss, *inputs)


def irm(loss: str, *inputs: Tensor) -> Tensor:
    return dense_derivatives(1, loss, *inputs).square().sum(1).mean()


def irm_scale(loss: str, features: Tensor, head: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
    logits, products = linear(features, head), []
    for label in domains.unique():
        rows, scale = (domains == label).nonzero()[:, 0], torch.ones((), dtype=torch.float64, requires_grad=True)
        means = [sample_losses(loss, scale * logits[half], targets[half]).mean() for half in (rows[::2], rows[1::2])]
        first, second = (torch.autograd.grad(mean, scale, create_graph=True)[0] for mean in means)
        products.append(first * second)
    return torch.stack(products).mean()


def vrex(loss: str, *inputs: Tensor) -> Tensor:
    return domain_losses(loss, *inputs).var(unbiased=False)


def hgp(center: str, loss: str, *inputs: Tensor) -> Tensor:
    g, H = dense_derivatives(1, loss, *inputs), hessians(loss, *inputs)
    products = (H @ g[:, :, None])[:, :, 0]
    middle = products.mean(0) if center == "mean" else (H.mean(0) @ g.mean(0)).detach()
    return 0.5 * spread(g) + 3 * (products - middle).square().sum(1).mean()


def hutchinson(samples: int, scaling: str, loss: str, features: Tensor, head: Tensor, *rest: Tensor) -> Tensor:
    H, classes = hessians(loss, features, head, *rest), len(head) if scaling == "classes" else 1
    torch.manual_seed(SEED)
    signs = [torch.randint(0, 2, head.shape).flatten() * 2.0 - 1 for _ in range(samples)]
    diagonals = [z * (H @ z.double()) for z in signs] or [H.diagonal(dim1=1, dim2=2)]
    first, second = dense_spread(1, loss, features, head, *rest), spread(torch.stack(diagonals).mean(0))
    return 0.5 * first / classes + 3 * second / classes**2


def over_pairs(distance: Callable[[Tensor, Tensor], Tensor], features: Tensor, domains: Tensor) -> Tensor:
    groups = [features[domains == label] for label in domains.unique()]
    return torch.stack([distance(a, b) for a, b in combinations(groups, 2)]).mean()


def covariance(rows: Tensor) -> Tensor:
    return rows.T.cov() if len(rows) > 1 else rows.new_zeros(2 * rows.shape[1:])


def coral(_: str, features: Tensor, head: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
    def distance(a: Tensor, b: Tensor) -> Tensor:
        return (a.mean(0) - b.mean(0)).square().mean() + (covariance(a) - covariance(b)).square().mean()

    return over_pairs(distance, features, domains)


def kernel(a: Tensor, b: Tensor) -> Tensor:
    """Mean of the summed Gaussian kernels over all pairs."""
    squares = (a[:, None] - b).square().sum(2)
    return sum((-(10.0**exponent) * squares).exp() for exponent in range(-3, 4)).mean()


def mmd(_: str, features: Tensor, head: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
    return over_pairs(lambda a, b: kernel(a, a) + kernel(b, b) - 2 * kernel(a, b), features, domains)


DEFINITIONS: dict[str, tuple[Callable[..., Any], Definition]] = {
    "cma": (partial(CMA, 0.5, 3.0), cma),
    "irm": (IRM, irm),
    "irm-scale": (partial(IRM, version="scale"), irm_scale),
    "vrex": (VREx, vrex),
    "hgp-mean": (partial(HGP, 0.5, 3.0), partial(hgp, "mean")),
    "hgp-product": (partial(HGP, 0.5, 3.0, center="product"), partial(hgp, "product")),
    "hutchinson": (partial(Hutchinson, 0.5, 3.0), partial(hutchinson, 0, "none")),
    "hutchinson-sampled": (partial(Hutchinson, 0.5, 3.0, samples=3), partial(hutchinson, 3, "none")),
    "hutchinson-classes": (partial(Hutchinson, 0.5, 3.0, scaling="classes"), partial(hutchinson, 0, "classes")),
    "coral": (CORAL, coral),
    "mmd": (MMD, mmd),
}


@each_case
@pytest.mark.parametrize("name", DEFINITIONS)
def test_value_and_gradients(name: str, case: Case) -> None:
    make, definition = DEFINITIONS[name]
    penalty = make(loss=case.loss, bias=case.bias)

    def seeded(*inputs: Tensor) -> Tensor:
        torch.manual_seed(SEED)
        return penalty(*inputs)

    n = 21 if name != "irm-scale" else 14
    assert_agrees(
        seeded, partial(definition, case.loss), make_batch(case.loss, n=n, balance=case.balance, bias=case.bias)
    )


@each_case
@pytest.mark.parametrize("name", ["irm", "hgp-mean", "hgp-product", "hutchinson", "hutchinson-classes"])
def test_large_heads_by_grams(name: str, case: Case) -> None:
    make, definition = DEFINITIONS[name]
    penalty = make(loss=case.loss, bias=case.bias)

    def by_grams(*inputs: Tensor) -> Tensor:
        terms = penalty.by_grams(penalty.rows(HeadBatch(*inputs)))
        return sum(penalty.weights[term] * value for term, value in terms.items())

    batch = make_batch(case.loss, balance=case.balance, bias=case.bias)
    assert_agrees(by_grams, partial(definition, case.loss), batch)


@each_case
@pytest.mark.parametrize("route", ["auto", "gram", "direct", "pairwise"])
def test_moment_alignment_by_every_route(case: Case, route: str) -> None:
    weights = {order: 1 + order / 2 for order in ORDERS[case.loss] if route in routes(case.loss, order)}
    batch = make_batch(case.loss, balance=case.balance, bias=case.bias)
    penalty = MomentAlignment(weights, loss=case.loss, bias=case.bias, route=route)
    assert_agrees(
        penalty, lambda *inputs: sum(w * dense_spread(r, case.loss, *inputs) for r, w in weights.items()), batch
    )


class AverageVariances:
    """Variances of per-sample gradients from autograd, and their moving average s ← γ s + (1 − γ) v."""

    def __init__(self, loss: str, decay: float) -> None:
        self.loss, self.decay = loss, decay
        self.averages: dict[int, Tensor] = {}

    def __call__(self, features: Tensor, head: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
        gradients = jacrev(lambda W: sample_losses(self.loss, linear(features, W), targets))(head).flatten(1)
        before = {label: self.decay * average.detach() for label, average in self.averages.items()}
        labels = domains.unique().tolist()
        now = {label: (1 - self.decay) * gradients[domains == label].var(0, unbiased=False) for label in labels}
        self.averages = before | {label: before.get(label, 0.0) + value for label, value in now.items()}
        values = torch.stack([self.averages[label] for label in labels]) / (1 - self.decay)
        return 3 * (values - values.mean(0)).square().mean()


@each_case
@pytest.mark.parametrize("decay", [0.0, 0.95])
def test_fishr_over_steps(case: Case, decay: float) -> None:
    penalty = Fishr(3.0, momentum=decay, loss=case.loss, bias=case.bias)
    definition = AverageVariances(case.loss, decay)
    all_domains, some = (3, -7, 2**40), (3, 2**40)
    for seed, domains in enumerate((some, all_domains, some, all_domains)):
        batch = make_batch(case.loss, n=11 + seed, domains=domains, balance=case.balance, bias=case.bias, seed=seed)
        assert_agrees(penalty, definition, batch)


@each_case
def test_fishr_vectors_are_those_of_its_term(case: Case) -> None:
    """Full-batch fits take them: the variances without a moving average."""
    penalty = Fishr(momentum=0.0, loss=case.loss, bias=case.bias)
    inputs = make_batch(case.loss, balance=case.balance, bias=case.bias).inputs
    rows = penalty.rows(HeadBatch(*inputs))
    (vectors,) = penalty.vectors(rows).values()
    torch.testing.assert_close(rows.mean_square(vectors), penalty(*inputs), rtol=1e-12, atol=0)


def test_irm_scale_counts_rows_within_their_domain() -> None:
    """Shuffling domains among each other keeps every domain's own order of rows; a single row has no second half."""
    inputs, penalty = make_batch("cross_entropy").inputs, IRM(version="scale")
    order = inputs[3].argsort(stable=True)
    torch.testing.assert_close(penalty(*(tensor[order] for tensor in inputs)), penalty(*inputs), rtol=1e-12, atol=0)
    assert penalty(*(tensor[:3] for tensor in inputs[:3]), torch.tensor([4, 5, 6])).item() == 0


def test_sampled_diagonal_converges_to_the_exact_one() -> None:
    inputs = make_batch("cross_entropy").inputs
    exact = Hutchinson().terms(*inputs)["hessian"]
    torch.manual_seed(0)
    errors = [(Hutchinson(samples=n).terms(*inputs)["hessian"] / exact - 1).abs() for n in (10, 4000)]
    assert errors[1] < 0.02 < errors[0]


def test_scalings_of_the_diagonal_are_cmas() -> None:
    inputs = make_batch("cross_entropy", d=4, C=3).inputs
    plain = Hutchinson().terms(*inputs)
    for scaling, divisors in {"classes": (3, 9), "parameters": (225, 225)}.items():
        found, cma = (make(scaling=scaling).terms(*inputs) for make in (Hutchinson, CMA))
        for name, divisor in zip(("gradient", "hessian"), divisors, strict=True):
            torch.testing.assert_close(found[name] * divisor, plain[name], rtol=1e-12, atol=0)
        torch.testing.assert_close(found["gradient"], cma["gradient"], rtol=1e-12, atol=0)


def test_coral_terms() -> None:
    """A shift changes the mean's term alone; a single row has covariance zero; logits and targets may be anything."""
    features, logits, targets, domains = make_batch("cross_entropy", n=31).inputs
    terms = CORAL(5.0).terms(features, logits, targets, domains)
    after = CORAL().terms(features + domains[:, None] / 2**40, logits.log(), targets + 7, domains)
    torch.testing.assert_close(after["covariance"], terms["covariance"])
    assert after["mean"] != terms["mean"]
    few = torch.tensor([[0.0], [2.0], [1.0]])
    terms = CORAL().terms(few, torch.zeros(3, 2), torch.zeros(3, dtype=torch.long), torch.tensor([0, 0, 1]))
    assert {name: term.item() for name, term in terms.items()} == {"mean": 0.0, "covariance": 4.0}


@pytest.mark.parametrize("offset", [0, 300])
@pytest.mark.parametrize("make", [CORAL, MMD])
def test_a_common_offset_costs_no_digits(make: type[CORAL | MMD], offset: float) -> None:
    features, logits, targets, domains = make_batch("cross_entropy", n=48, d=512).inputs
    moved = features.float() + offset
    found, expected = make()(moved, logits.float(), targets, domains), make()(moved.double(), logits, targets, domains)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_same_wide_features_in_two_domains() -> None:
    """The narrowest kernel sees a squared distance of 1e-3, and rounding leaves 1e-4 of a row's distance to itself."""
    features, logits, targets, _ = make_batch("cross_entropy", n=48, d=512).inputs
    features, logits = (torch.cat([tensor, tensor.flip(0)]).float() for tensor in (features, logits))
    assert abs(MMD()(features, logits, torch.cat([targets, targets.flip(0)]), torch.arange(96) // 48)) < 1e-6
