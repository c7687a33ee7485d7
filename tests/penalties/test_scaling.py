import pytest
import torch
from torch import Tensor

from momentalign import MomentAlignment
from tests.penalties.agreement import assert_agrees
from tests.references import assert_equal, dense_derivatives, dense_spread, make_batch

pytestmark = pytest.mark.slow

ROUTES = {"cross_entropy": {"gram": (1, 2, 3), "direct": (1, 2)}, "logistic": {"gram": (1, 2, 3), "direct": (1, 2, 3)}}
all_routes = pytest.mark.parametrize(("loss", "route"), [(loss, route) for loss in ROUTES for route in ROUTES[loss]])


def relative(loss: str, route: str, bias: bool = True) -> MomentAlignment:
    orders = ROUTES[loss][route]
    return MomentAlignment(dict.fromkeys(orders, 1.0), loss=loss, route=route, scaling="relative", bias=bias)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("route", ["gram", "direct"])
def test_constants(route: str, bias: bool) -> None:
    batch = make_batch("cross_entropy", d=4, C=3, bias=bias)
    weights = dict.fromkeys(ROUTES["cross_entropy"][route], 1.0)
    plain, classes, parameters = (
        MomentAlignment(weights, scaling=scaling, route=route, bias=bias).terms(*batch.inputs)
        for scaling in ("none", "classes", "parameters")
    )
    for order, name in zip(weights, plain, strict=True):
        assert_equal(classes[name] * 3**order, plain[name])
        assert_equal(parameters[name] * ((4 + bias) * 3) ** 2, plain[name])


@pytest.mark.parametrize("bias", [True, False])
@all_routes
def test_relative_divides_by_the_samples_energy(loss: str, route: str, bias: bool) -> None:
    def reference(features: Tensor, head: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for order in ROUTES[loss][route]:
            alone = dense_derivatives(order, loss, features, head, targets, torch.arange(len(domains)))
            energies = alone.square().sum(1)
            energy = torch.stack([energies[domains == label].mean() for label in domains.unique()]).mean()
            total = total + dense_spread(order, loss, features, head, targets, domains) / energy
        return total

    assert_agrees(relative(loss, route, bias), reference, make_batch(loss, bias=bias))


@pytest.mark.parametrize("features_by", [1e-20, 1e-10, 1e-3, 1.0, 1e2, 1e4], ids="features*{:g}".format)
@pytest.mark.parametrize("logits_by", [0.0, 1.0, 10.0, 65.1, 128.88, 376.94, 1000.0], ids="logits*{:g}".format)
@all_routes
def test_relative_lies_between_0_and_1(loss: str, route: str, logits_by: float, features_by: float) -> None:
    for seed in range(4):
        batch = make_batch(loss, seed=seed)
        features = (features_by * batch.features).float().requires_grad_()
        logits = (logits_by * batch.logits).float().requires_grad_()
        penalty = relative(loss, route, bias=seed > 1)
        terms = torch.stack(list(penalty.terms(features, logits, batch.targets, batch.domains).values()))
        assert terms.min() > -1e-6
        assert terms.max() < 1 + 1e-6
        gradients = torch.autograd.grad(terms.sum(), [features, logits])
        assert all(gradient.isfinite().all() for gradient in gradients)


@all_routes
def test_relative_reaches_its_bounds(loss: str, route: str) -> None:
    # All samples of a domain agree, and the other domain has them negated: odd derivatives cancel, even ones agree.
    sign = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    features, domains = sign[:, None] * torch.tensor([1.0, 2.0]), sign.long()
    logits, targets = torch.full((6, 1 if loss == "logistic" else 3), 0.5), torch.zeros(6, dtype=torch.long)
    terms = relative(loss, route, bias=False).terms(features, logits, targets, domains)
    assert abs(terms["gradient"] - 1) < 1e-6
    assert abs(terms["hessian"]) < 1e-6


@all_routes
def test_relative_does_not_see_the_scale_of_the_features(loss: str, route: str) -> None:
    batch = make_batch(loss, bias=False)
    small, large = (
        relative(loss, route, bias=False)(scale * batch.features, *batch.inputs[1:]) for scale in (1e-3, 1e3)
    )
    assert_equal(small, large)


@all_routes
def test_saturation_buys_off_the_absolute_penalty_only(loss: str, route: str) -> None:
    batch = make_batch(loss, seed=3)
    features, targets, domains = batch.features.float(), batch.targets, batch.domains
    for order in ROUTES[loss][route][1:]:
        options = {"loss": loss, "route": route}
        absolute, quotient = (
            [
                MomentAlignment({order: 1.0}, scaling=scaling, **options)(
                    features, (sharpness * batch.logits).float(), targets, domains
                ).item()
                for sharpness in (1.0, 30.0)
            ]
            for scaling in ("none", "relative")
        )
        assert absolute[1] < 0.05 * absolute[0]
        assert quotient[1] > 0.3 * quotient[0]


@all_routes
def test_nothing_over_nothing_is_zero(loss: str, route: str) -> None:
    batch = make_batch(loss)
    features = torch.zeros_like(batch.features, requires_grad=True)
    logits = batch.logits.clone().requires_grad_()
    value = relative(loss, route, bias=False)(features, logits, batch.targets, batch.domains)
    assert value.item() == 0
    assert all((gradient == 0).all() for gradient in torch.autograd.grad(value, [features, logits]))
