"""What the base class takes, refuses and shows."""

import warnings
from typing import Any

import pytest
import torch

from momentalign import CMA, CORAL, IRM, Fishr, MomentAlignment, VREx
from momentalign.penalties import DomainPenalty
from tests.penalties.cases import CASES, Case
from tests.references import make_batch


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"anneal_steps": -1}, ValueError, r"'anneal_steps' should be at least 0, but is -1"),
        ({"anneal_steps": 1.5}, TypeError, r"'anneal_steps' should be an integer, but is 1.5"),
        ({"num_domains": 0}, ValueError, r"'num_domains' should be at least 1, but is 0"),
        ({"num_domains": "3"}, TypeError, r"'num_domains' should be an integer, but is '3'"),
    ],
)
def test_bad_options(case: Case, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        case.make(**options)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda weight: CMA(weight, 1.0), "gradient_weight"),
        (lambda weight: CMA(1.0, weight), "hessian_weight"),
        (lambda weight: MomentAlignment({3: weight}), "order_3_weight"),
        (CORAL, "weight"),
        (Fishr, "weight"),
        (IRM, "weight"),
        (VREx, "weight"),
    ],
)
def test_bad_weights_are_named(make: Any, name: str) -> None:
    for weight in (-1, -1e-9, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=rf"'{name}' should be finite and not below 0, but is {weight}"):
            make(weight)
    for weight in ("1", True, None):
        with pytest.raises(TypeError, match=rf"'{name}' should be a number, but is {weight!r}"):
            make(weight)


def changed(**changes: Any) -> tuple[Any, ...]:
    """A good batch of six samples with one thing changed."""
    good = {
        "features": torch.ones(6, 2),
        "logits": torch.zeros(6, 3),
        "targets": torch.tensor([0, 1, 2, 0, 1, 2]),
        "domains": torch.tensor([0, 0, 0, 1, 1, 1]),
    }
    return tuple((good | changes).values())


BAD = {
    "list": ({"features": [[1.0]]}, TypeError, "'features' should be a torch.Tensor, but is a list"),
    "int features": ({"features": torch.ones(6, 2).long()}, TypeError, "'features' should hold floating-point numbers"),
    "flat features": ({"features": torch.ones(6)}, ValueError, r"'features' should have shape \(n, d\).*\(6,\)"),
    "flat logits": ({"logits": torch.zeros(6)}, ValueError, r"'logits' should have shape \(n, C\).*\(6,\)"),
    "fewer domains": (
        {"domains": torch.zeros(5).long()},
        ValueError,
        r"'domains' should have one entry per row of 'features' \(6\), but has shape \(5,\)",
    ),
    "fewer targets": ({"targets": torch.zeros(5).long()}, ValueError, r"'targets' should have one entry per row"),
    "fewer logits": ({"logits": torch.zeros(5, 3)}, ValueError, r"'logits' should have one entry per row"),
    "float domains": ({"domains": torch.zeros(6)}, TypeError, "'domains' should hold integers, .* torch.float32"),
    "bool domains": ({"domains": torch.zeros(6).bool()}, TypeError, "'domains' should hold integers, .* torch.bool"),
    "domain matrix": ({"domains": torch.zeros(6, 1).long()}, ValueError, r"'domains' should have shape \(6,\)"),
    "float targets": ({"targets": torch.zeros(6)}, TypeError, "'targets' should hold class indices"),
    "target matrix": ({"targets": torch.zeros(6, 3).long()}, ValueError, r"'targets' should have shape \(6,\)"),
    "high target": ({"targets": torch.full((6,), 3)}, ValueError, "'targets' should lie between 0 and 2 .* 3 and 3"),
    "low target": ({"targets": torch.full((6,), -1)}, ValueError, "'targets' should lie between 0 and 2 .* -1 and -1"),
    "one logit": ({"logits": torch.zeros(6, 1)}, ValueError, "at least 2 columns .* Use loss='logistic' for one logit"),
    "NaN": ({"features": torch.full((6, 2), torch.nan)}, ValueError, "'features' should be finite, but has 12 NaN"),
    "infinite": ({"logits": torch.full((6, 3), torch.inf)}, ValueError, "'logits' should be finite, but has 18 NaN"),
    "high domain": ({"domains": torch.arange(6)}, ValueError, "'domains' should lie between 0 and 1 .*num_domains=2"),
    "low domain": ({"domains": torch.arange(-1, 5)}, ValueError, "'domains' should lie between 0 and 1 .* -1 and 4"),
    "empty": (
        dict(zip(("features", "logits", "targets", "domains"), (x[:0] for x in changed()), strict=True)),
        ValueError,
        "'features' should have at least one row, but has none",
    ),
}


@pytest.mark.parametrize("method", ["__call__", "terms"])
@pytest.mark.parametrize(("changes", "error", "message"), BAD.values(), ids=BAD)
def test_bad_batches(changes: dict[str, Any], error: type[Exception], message: str, method: str) -> None:
    penalty = Fishr(num_domains=2)
    with pytest.raises(error, match=message):
        getattr(penalty, method)(*changed(**changes))
    assert penalty.step.item() == 0
    assert penalty.memory.variance.numel() == 0


def test_values_are_not_looked_at_on_request() -> None:
    broken = changed(features=torch.full((6, 2), torch.nan))
    assert CMA(validate=False)(*broken).isnan()
    one_domain = changed(domains=torch.zeros(6).long())
    assert CMA(validate=False)(*one_domain).item() == 0  # and no warning, which would be an error


def test_terms_warn_at_the_line_that_called() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CMA().terms(*changed(domains=torch.zeros(6).long()))
    assert [(warning.filename, warning.category) for warning in caught] == [(__file__, UserWarning)]
    assert "nothing to compare, and CMA is 0. Draw batches from several" in str(caught[0].message)


def test_a_domain_that_is_missing_is_left_out() -> None:
    features, logits, targets, domains = make_batch("cross_entropy", domains=(0, 1, 2)).inputs
    seen = domains != 1
    batch = features[seen], logits[seen], targets[seen], domains[seen]
    assert torch.equal(CMA(num_domains=3, route="direct")(*batch), CMA(route="direct")(*batch))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.uint8])
def test_integers_of_any_width(dtype: torch.dtype) -> None:
    features, logits, targets, domains = make_batch("cross_entropy", domains=(0, 1, 2)).inputs
    for penalty in (CMA(), CMA(route="direct"), Fishr(), IRM(version="scale"), VREx()):
        expected = penalty.eval()(features, logits, targets, domains)
        assert torch.equal(penalty(features, logits, targets.to(dtype), domains.to(dtype)), expected)


def test_mixed_precision_takes_the_higher() -> None:
    features, logits, targets, domains = changed()
    assert CMA()(features.double(), logits, targets, domains).dtype == torch.float64
    assert CMA()(features.half(), logits.bfloat16(), targets, domains).dtype == torch.float32


def test_shows_its_weights() -> None:
    shown = repr(CMA(0.5, 2e4, anneal_steps=7))
    assert shown == "CMA(gradient_weight=0.5, hessian_weight=20000, anneal_steps=7, loss='cross_entropy')"
    assert repr(CORAL(2.0)) == "CORAL(weight=2, anneal_steps=0)"


def test_the_base_class_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        DomainPenalty({})


class KnownTerms(DomainPenalty):
    """Sums of features and of logits, one of weight 0."""

    def __init__(self, **options: Any) -> None:
        super().__init__({"first": 3.0, "second": 0.0, "third": 1.0}, gather=False, validate=False, **options)

    def compute_terms(self, batch: Any, names: list[str], *, update: bool) -> dict[str, torch.Tensor]:
        return {"first": batch.features.sum(), "second": batch.logits.sum(), "third": batch.features[0].sum()}


@pytest.mark.parametrize(("initial_weight", "named"), [(0.0, {"first", "third"}), (0.5, {"first", "second", "third"})])
def test_weights_of_several_terms_before_and_after_annealing(initial_weight: float, named: set[str]) -> None:
    penalty = KnownTerms(anneal_steps=1)
    penalty.initial_weight = initial_weight
    features, logits, targets, domains = changed(logits=torch.ones(6, 3))
    weights = [dict.fromkeys(("first", "second", "third"), initial_weight), penalty.weights]
    for step in range(2):
        inputs = features.clone().requires_grad_(), logits.clone().requires_grad_()
        total, terms = penalty.with_terms(*inputs, targets, domains)
        assert set(terms) == named
        assert total.item() == weights[step]["first"] * 12 + weights[step]["second"] * 18 + weights[step]["third"] * 2
        slopes = torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)
        assert slopes[0].unique().tolist() == sorted({weights[step]["first"] + w for w in (0, weights[step]["third"])})
        assert slopes[1].unique().tolist() == [weights[step]["second"]]


class Overflowing(DomainPenalty):
    """One finite term, then two that are not."""

    def __init__(self) -> None:
        super().__init__({"finite": 1.0, "large": 1.0, "none": 1.0}, gather=False)

    def compute_terms(self, batch: Any, names: list[str], *, update: bool) -> dict[str, torch.Tensor]:
        total = batch.features.sum()
        return {"finite": total, "large": total * torch.inf, "none": total * torch.nan}


def test_the_first_term_that_is_not_finite_is_named_with_its_value() -> None:
    with pytest.raises(ValueError, match=r"^Term 'large' of Overflowing should be finite, but is inf in"):
        Overflowing()(*changed())


class Columns(DomainPenalty):
    """Terms that are the first row's features."""

    def __init__(self, weights: tuple[float, ...], **options: Any) -> None:
        super().__init__({str(k): weight for k, weight in enumerate(weights)}, **options)

    def compute_terms(self, batch: Any, names: list[str], *, update: bool) -> dict[str, torch.Tensor]:
        return {name: batch.features[0, int(name)] for name in names}


@pytest.mark.parametrize("terms", [1, 2, 3, 4])
@pytest.mark.parametrize("start", [0, 1, 2, 9])
@pytest.mark.parametrize("initial", [0.0, 1.0])
def test_weights_take_effect_at_their_step(terms: int, start: int, initial: float) -> None:
    """Three calls, the second of them in evaluation mode, which does not count."""
    weights, counted = (0.5, 3.0, 0.0, 7.0)[:terms], 0
    penalty = Columns(weights, anneal_steps=start)
    penalty.initial_weight = initial
    for training in (True, False, True):
        features = torch.arange(2.0, 2.0 + terms).repeat(2, 1).requires_grad_()
        total = penalty.train(training)(features, torch.zeros(2, 2), torch.tensor([0, 1]), torch.tensor([0, 1]))
        in_force = weights if counted >= start else (initial,) * terms
        assert total.item() == sum(weight * (2 + k) for k, weight in enumerate(in_force))
        assert torch.autograd.grad(total, features)[0][0].tolist() == list(in_force)
        counted += training
        assert penalty.step.item() == counted


def test_calls_count_while_all_weights_are_zero() -> None:
    penalty = CMA(0.0, 0.0, anneal_steps=2)
    for _ in range(2):
        assert penalty(*changed()).item() == 0
    assert penalty.step.item() == 2
    penalty.weights["gradient"] = 1.0  # in force at once: annealing is over
    batch = make_batch("cross_entropy", domains=(0, 1, 2)).inputs
    assert penalty(*batch).item() == penalty.terms(*batch)["gradient"].item() > 0


class Forgetful(CMA):
    def compute_terms(self, batch: Any, names: list[str], *, update: bool) -> dict[str, torch.Tensor]:
        return {"gradient": batch.features.sum(), "other": batch.features.sum()}


def test_a_missing_term_is_an_error() -> None:
    with pytest.raises(ValueError, match="Forgetful should compute the term 'hessian'"):
        Forgetful()(*changed())


class Own(DomainPenalty):
    """A penalty as a user writes one: its only term is given by a function of the batch."""

    def __init__(self, term: Any, **options: Any) -> None:
        super().__init__({"mine": 1.0}, **options)
        self.term = term

    def compute_terms(self, batch: Any, names: list[str], *, update: bool) -> dict[str, torch.Tensor]:
        return self.term(batch)


BAD_TERMS = {
    "vector": lambda b: {"mine": b.features.mean(0)},
    "one number": lambda b: {"mine": b.features.sum().reshape(1)},
    "integer": lambda b: {"mine": b.domains.sum()},
    "float": lambda b: {"mine": b.features.sum().item()},
    "detached": lambda b: {"mine": b.features.detach().sum()},
    "constant": lambda b: {"mine": torch.ones(())},
    "nan": lambda b: {"mine": b.features.sum() / 0 * 0},
    "overflow": lambda b: {"mine": (1e5 * b.features).exp().sum()},
}


@pytest.mark.parametrize("term", BAD_TERMS.values(), ids=BAD_TERMS)
def test_a_bad_term_is_an_error_with_its_name(term: Any) -> None:
    features, logits, targets, domains = changed()
    with pytest.raises((TypeError, ValueError), match=r"^Term 'mine' of Own "):
        Own(term)(features.requires_grad_(), logits.requires_grad_(), targets, domains)


def test_terms_are_checked_where_it_matters_only() -> None:
    """A term without a gradient is fine where nothing is trained, and finiteness where values are not checked."""
    own = Own(BAD_TERMS["detached"])
    assert own(*changed()).item() == own.terms(*changed())["mine"].item() == 12
    with torch.no_grad():
        assert own(*changed(features=torch.ones(6, 2, requires_grad=True))).item() == 12
    assert Own(BAD_TERMS["nan"], validate=False)(*changed()).isnan()
    with pytest.raises(TypeError, match=r"Own.compute_terms\(\) should return a dict of scalars, but is a NoneType"):
        Own(lambda batch: None)(*changed())


SWAPPED = {
    "one logit": ("logistic", 1, 4, torch.arange(6) % 2, "'logits' should have shape \\(n, 1\\)"),
    "real targets": ("squared_error", 2, 4, torch.ones(6, 2), "'targets' should have the shape of 'logits'"),
    "many classes": ("cross_entropy", 9, 4, torch.arange(6) + 3, "'targets' should lie between 0 and 3"),
}


@pytest.mark.parametrize(("loss", "outputs", "size", "targets", "message"), SWAPPED.values(), ids=SWAPPED)
def test_swapped_features_and_logits_are_named(
    loss: str, outputs: int, size: int, targets: torch.Tensor, message: str
) -> None:
    features, logits, domains = torch.ones(6, size), torch.ones(6, outputs), torch.arange(6) % 2
    penalty = CMA(loss=loss)
    penalty(features, logits, targets, domains)
    with pytest.raises(ValueError, match=f"{message}.* Are 'features' and 'logits' swapped"):
        penalty(logits, features, targets, domains)
