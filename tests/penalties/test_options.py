"""Options and batches that no penalty takes, each an error that names the argument."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from momentalign import CMA, CORAL, HGP, IRM, Fishr, Hutchinson, MomentAlignment, VREx
from tests.bad_batches import BAD, BAD_TARGETS, GOOD, N, changed
from tests.penalties.cases import CASES, Case
from tests.references import make_batch

BAD_OPTIONS = [
    ({"anneal_steps": -1}, ValueError, "anneal_steps"),
    ({"anneal_steps": 1.5}, TypeError, "anneal_steps"),
    ({"num_domains": 0}, ValueError, "num_domains"),
    ({"num_domains": "3"}, TypeError, "num_domains"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize(("options", "error", "name"), BAD_OPTIONS)
def test_options_of_all(case: Case, options: dict[str, Any], error: type[Exception], name: str) -> None:
    with pytest.raises(error, match=f"^'{name}' should"):
        case.make(**options)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda weight: CMA(weight, 1.0), "gradient_weight"),
        (lambda weight: CMA(1.0, weight), "hessian_weight"),
        (lambda weight: MomentAlignment({3: weight}), "order_3_weight"),
        *((make, "weight") for make in (CORAL, Fishr, IRM, VREx)),
    ],
)
def test_weights(make: Callable[[Any], Any], name: str) -> None:
    for weight in (-1, -1e-9, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=f"'{name}' .* {weight}"):
            make(weight)
    for weight in ("1", True, None):
        with pytest.raises(TypeError, match=f"'{name}' .* {weight!r}"):
            make(weight)


alignment = partial(MomentAlignment, {1: 1.0})


@pytest.mark.parametrize(
    ("make", "options", "named"),
    [
        (alignment, {"route": "grams"}, "'route' .*'grams'.*'gram'"),
        (alignment, {"scaling": None}, "'scaling' .*'relative'.* None"),
        (alignment, {"loss": "hinge"}, "'loss' .*'cross_entropy'.*'hinge'"),
        (alignment, {"momentum": 1.0}, "'momentum' .*1.0"),
        (alignment, {"momentum": -0.1}, "'momentum' .*-0.1"),
        (alignment, {"momentum": 0.5, "route": "pairwise"}, "'pairwise' .*'gram'"),
        (MomentAlignment, {"order_weights": {}}, "'order_weights'"),
        (MomentAlignment, {"order_weights": {0: 1.0}}, "'order' .*'cross_entropy'.* 0"),
        (MomentAlignment, {"order_weights": {5: 1.0}}, "'order' .* 5.*'logistic'"),
        (MomentAlignment, {"order_weights": {3: 1.0}, "route": "pairwise"}, "'pairwise' .* 3.*'gram'"),
        (MomentAlignment, {"order_weights": {3: 1.0}, "route": "direct"}, "'direct' .* 3.*'gram'"),
        (MomentAlignment, {"order_weights": {3: 1.0}, "route": "direct", "momentum": 0.5}, "'direct' .*'gram'"),
        (Fishr, {"momentum": 1}, "'momentum' .*1"),
        (Fishr, {"momentum": -0.5}, "'momentum' .*-0.5"),
        (HGP, {"center": "median"}, "'center' .*'product'.*'median'"),
        (Hutchinson, {"samples": 0}, "'samples' .*0"),
        (Hutchinson, {"scaling": "relative"}, "'scaling' .*'parameters'.*'relative'"),
        (IRM, {"version": "scales"}, "'version' .*'scales'.*'scale'"),
    ],
)
def test_values(make: Callable[..., Any], options: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        make(**options)(*make_batch("cross_entropy").inputs)


@pytest.mark.parametrize(
    ("make", "argument", "named"),
    [
        *((MomentAlignment, {order: 1.0}, "'order' should") for order in ("1", 1.0, True)),
        (MomentAlignment, [1.0], "'order_weights'"),
        (MomentAlignment, {2: "1"}, "'hessian_weight'"),
        *((lambda samples: Hutchinson(samples=samples), samples, "'samples'") for samples in (2.0, True)),
    ],
)
def test_types(make: Callable[[Any], Any], argument: Any, named: str) -> None:
    with pytest.raises(TypeError, match=named):
        make(argument)


def test_direct_refuses_a_derivative_that_is_too_large() -> None:
    penalty = MomentAlignment({4: 1.0}, loss="logistic", route="direct")
    with pytest.raises(ValueError, match=r"numbers for each domain .*'gram'"):
        penalty(torch.zeros(2, 400), torch.zeros(2, 1), torch.zeros(2), torch.tensor([0, 1]))


def reads(case: Case, name: str, value: Any) -> bool:
    """Whether a penalty looks at what is wrong: some take features or logits alone."""
    if case.make().features_only:
        return name in ("features", "domains")
    finite = not isinstance(value, torch.Tensor) or value.is_meta or bool(value.isfinite().all())
    return name != "features" or finite or "features" in case.reaches


@pytest.mark.parametrize("method", ["__call__", "terms", "with_terms"])
@pytest.mark.parametrize(("error", "name", "value"), BAD)
def test_batches(error: type[Exception], name: str, value: Any, method: str) -> None:
    for case in CASES:
        if case.loss == "cross_entropy" and reads(case, name, value):
            penalty = case.make()
            before = {key: tensor.clone() for key, tensor in penalty.state_dict().items()}
            with pytest.raises(error, match=f"^'{name}' should"):
                getattr(penalty, method)(*changed(**{name: value}))
            assert all(torch.equal(tensor, before[key]) for key, tensor in penalty.state_dict().items())


@pytest.mark.parametrize(("loss", "outputs", "targets", "name"), BAD_TARGETS)
def test_targets_of_a_loss(loss: str, outputs: int, targets: torch.Tensor, name: str) -> None:
    with pytest.raises(ValueError, match=f"^'{name}' should"):
        CMA(loss=loss)(*changed(logits=torch.zeros(N, outputs), targets=targets))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_rows(case: Case) -> None:
    with pytest.raises(ValueError, match="'features' should have at least one row"):
        case.make()(*(tensor[:0] for tensor in case.batch()))


@pytest.mark.parametrize("domains", [torch.arange(N), torch.arange(N) - 1])
def test_domains_beyond_their_number(domains: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=f"'domains' .* 1 .*num_domains=2.* {domains.min()} and {domains.max()}"):
        Fishr(num_domains=2)(*changed(domains=domains))


@pytest.mark.parametrize(("C", "target"), [(2, -100), (2, -1), (2, 2), (3, -100), (3, 3)])
def test_targets_out_of_range_where_gradients_are_by_hand(C: int, target: int) -> None:
    features, logits, targets, domains = make_batch("cross_entropy", C=C).inputs
    targets = targets.index_fill(0, torch.tensor([3]), target)
    for case in [case for case in CASES if case.name in ("cma-auto", "gradient", "hessian")]:
        for dtype in (torch.long, torch.int8):
            with pytest.raises(ValueError, match="'targets' should lie between"):
                case.make()(features.requires_grad_(), logits.requires_grad_(), targets.to(dtype), domains)


@pytest.mark.parametrize(
    ("loss", "outputs", "targets", "named"),
    [
        ("logistic", 1, GOOD["domains"], "'logits'"),
        ("squared_error", 2, torch.ones(N, 2), "'targets'"),
        ("cross_entropy", 9, torch.arange(N) + 3, "'targets' .* 0 and 3"),
    ],
)
def test_swapped_features_and_logits_are_named(loss: str, outputs: int, targets: torch.Tensor, named: str) -> None:
    features, logits, penalty = torch.ones(N, 4), torch.ones(N, outputs), CMA(loss=loss)
    penalty(features, logits, targets, GOOD["domains"])
    with pytest.raises(ValueError, match=f"^{named}.* 'features' and 'logits' swapped"):
        penalty(logits, features, targets, GOOD["domains"])


def test_values_are_not_looked_at_on_request() -> None:
    assert CMA(validate=False)(*changed(features=torch.full((N, 2), torch.nan))).isnan()
    one_domain = changed(domains=torch.zeros(N).long())
    assert CMA(validate=False)(*one_domain).item() == 0  # and no warning, which would be an error


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.uint8])
def test_integers_of_any_width(dtype: torch.dtype) -> None:
    features, logits, targets, domains = make_batch("cross_entropy", domains=(0, 1, 2)).inputs
    for case in [case for case in CASES if case.loss == "cross_entropy" and not case.random]:
        expected = case.make().eval()(features, logits, targets, domains)
        assert torch.equal(case.make()(features, logits, targets.to(dtype), domains.to(dtype)), expected)


def test_mixed_precision_takes_the_higher() -> None:
    features, logits, targets, domains = changed()
    assert CMA()(features.double(), logits, targets, domains).dtype == torch.float64
    assert CMA()(features.half(), logits.bfloat16(), targets, domains).dtype == torch.float32
