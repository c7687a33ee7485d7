from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from momentalign import CMA, HGP, IRM, Fishr, Hutchinson, VREx
from momentalign._seeds import seed_hash
from momentalign.linear import LinearHead, SortedRows, fit_path
from momentalign.penalties import DomainPenalty
from momentalign.probing import METHODS, ProbeFeatures, ProbeSolver, find_method, project
from momentalign.probing._fit import bootstrap_rows, bootstrap_weights
from tests.probing.problems import spurious_data

pytestmark = pytest.mark.slow

FEATURES = project(spurious_data(), isr_class=0)
FEW = project(spurious_data(120, 40), isr_class=0)
SGD = ProbeSolver("sgd", l2=0.0, epochs=3, batch_size=50, learning_rate=0.1)
CMA_SET = {"gradient_weight": 100.0, "hessian_weight": 200.0, "anneal_steps": 4}


def converged(
    name: str, settings: list[dict[str, float]], features: ProbeFeatures = FEATURES, **options: float
) -> list[LinearHead]:
    solver = ProbeSolver("converged", **{"l2": 0.01, "tol": 1e-7, **options})  # type: ignore[arg-type]
    return solver.fit(features, find_method(name), settings, 0)


def absolute(features: ProbeFeatures = FEATURES) -> float:
    return 0.01 * float(np.square(features.train.features).mean())


def largest_setting(name: str) -> dict[str, float]:
    return {key: values[-2] for key, values in METHODS[name].grid.items()}


CONVERGED = [name for name, method in METHODS.items() if method.penalty is not None and "converged" in method.solvers]


@pytest.mark.parametrize("name", CONVERGED)
def test_solutions_are_stationary_points_that_lower_the_objective(name: str) -> None:
    method, setting = find_method(name), largest_setting(name)
    (head,) = converged(name, [setting])
    assert head.converged
    objective = method.objective(bootstrap_rows(FEATURES, 0, method), 2, absolute())
    (plain,) = converged("erm-balanced", [{}])
    objective.set_weights(method.weights(setting))
    value, gradient = objective(head.coef.ravel())
    assert value == pytest.approx(head.objective)
    assert value < objective(plain.coef.ravel())[0]
    assert np.abs(gradient).max() < 1e-5


def reference(settings: list[dict[int, float]], *, pooled: bool = False) -> list[LinearHead]:
    train = FEATURES.train
    weights = bootstrap_weights(FEATURES, seed_hash("bootstrap", 0))
    domains = None if pooled else train.domains
    options = {"l2": absolute(), "scaling": "parameters", "bias": False, "tol": 1e-8, "sample_weight": weights}
    return fit_path(train.features, train.targets, domains, settings, **options)  # type: ignore[arg-type]


def test_alignment_is_that_of_fit_path() -> None:
    settings = [{"gradient_weight": g, "hessian_weight": h} for g in (1.0, 1e3) for h in (10.0, 1e4)]
    orders = [{1: one["gradient_weight"], 2: one["hessian_weight"]} for one in settings]
    for one, other in zip(converged("cma", settings), reference(orders), strict=True):
        np.testing.assert_allclose(one.coef, other.coef, rtol=1e-4, atol=1e-6)


def test_erm_counts_rows_alike_and_the_balanced_one_domains() -> None:
    heads = {name: converged(name, [{}])[0] for name in ("erm", "erm-balanced", "coral")}
    for name, pooled in (("erm", True), ("erm-balanced", False)):
        (expected,) = reference([{}], pooled=pooled)
        np.testing.assert_allclose(heads[name].coef, expected.coef, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(heads["coral"].coef, heads["erm-balanced"].coef)
    assert (heads["erm"].coef != heads["erm-balanced"].coef).any()


def test_bootstraps_keep_every_domain_and_class() -> None:
    train = FEATURES.train
    few = type(train)(train.features[:4], np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.zeros(4, dtype=np.int64))
    for seed in range(30):
        weights = bootstrap_weights(replace(FEATURES, splits={"train": few}), seed)
        assert weights.sum() == 4
        assert len(np.unique(few.domains[weights > 0])) == len(np.unique(few.targets[weights > 0])) == 2
    assert not np.array_equal(bootstrap_weights(FEATURES, 0), bootstrap_weights(FEATURES, 1))


def test_groups_count_alike_in_each_domain_of_a_penalty() -> None:
    """Groups that occur in several domains: each pair of a domain and a group is counted by itself."""
    rng, n = np.random.default_rng(0), 400
    domains, groups = rng.choice(3, n, p=[0.6, 0.3, 0.1]), rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    train = replace(FEATURES.train, domains=domains, groups=groups, targets=rng.integers(0, 2, n))
    train = replace(train, features=np.stack([domains, groups], axis=1).astype(float))
    data = replace(FEATURES.data, group_names=("a", "b", "c", "d"), domain_names=("u", "v", "w"))
    features = replace(FEATURES, data=data, splits={"train": train})
    rows = bootstrap_rows(features, 0, find_method("cma-balanced"))
    totals = np.zeros((3, 4))
    np.add.at(totals, tuple(rows.X.astype(int).T), rows.shares)
    np.testing.assert_allclose(totals, 1 / 4, rtol=1e-12)
    assert rows.number == 3
    by_group = bootstrap_rows(features, 0, find_method("balanced"))
    assert by_group.number == 4
    np.testing.assert_array_equal(np.unique(by_group.X[:, 1][by_group.starts[:-1]]), range(4))
    assert bootstrap_rows(features, 0, find_method("erm")).number == 1


def test_bootstraps_that_cannot_have_every_group_name_the_groups() -> None:
    train = replace(FEATURES.train, groups=np.arange(len(FEATURES.train.targets)))  # each row its own
    data = replace(FEATURES.data, group_names=tuple(f"group {k}" for k in range(len(train.targets))))
    with pytest.raises(ValueError, match=r"1000 draws had not: the smallest groups are 'group 0' \(1\).*Merge them"):
        bootstrap_weights(replace(FEATURES, data=data, splits={"train": train}), 0)


def sgd(name: str, hparams: dict[str, float] | None = None, seed: int = 0, **options: float) -> LinearHead:
    return replace(SGD, **options).fit(FEW, find_method(name), [hparams or {}], seed)[0]  # type: ignore[arg-type]


def by_hand(penalty: DomainPenalty | None, *, balanced: bool) -> np.ndarray:
    """The same steps written out."""
    order, train = torch.Generator().manual_seed(seed_hash("batches", 0)), FEW.train
    X, y, e = (torch.from_numpy(column) for column in (train.features, train.targets, train.domains))
    bound = X.shape[1] ** -0.5
    W = torch.empty(2, X.shape[1], dtype=X.dtype).uniform_(-bound, bound, generator=torch.Generator().manual_seed(0))
    W.requires_grad_()
    optimizer = torch.optim.SGD([W], lr=0.1)
    for _ in range(3):
        for batch in torch.randperm(len(X), generator=order).split(50):
            logits = X[batch] @ W.T
            losses = cross_entropy(logits, y[batch], reduction="none")
            loss = losses.mean()
            if balanced:
                loss = torch.stack([losses[e[batch] == domain].mean() for domain in (0, 1)]).mean()
            if penalty is not None:
                loss = loss + penalty(X[batch], logits, y[batch], e[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return (W[1] - W[0]).detach().numpy()


BOTH = {"gradient_weight": 2.0, "hessian_weight": 3.0}


@pytest.mark.parametrize(
    ("name", "hparams", "penalty"),
    [
        ("erm", {}, None),
        ("coral", {}, None),
        ("erm-balanced", {}, None),
        ("cma", CMA_SET, CMA(100.0, 200.0, anneal_steps=4, bias=False, scaling="parameters")),
        ("hgp", BOTH, HGP(2.0, 3.0, anneal_steps=4, bias=False)),
        ("hutchinson", BOTH, Hutchinson(2.0, 3.0, anneal_steps=4, bias=False)),
        ("irm", {"weight": 5.0}, IRM(5.0, anneal_steps=4, bias=False)),
        ("vrex", {"weight": 50.0}, VREx(50.0, anneal_steps=4)),
        ("fishr", {"weight": 5.0, "momentum": 0.9}, Fishr(5.0, momentum=0.9, anneal_steps=4, bias=False)),
    ],
)
def test_steps_are_those_of_plain_sgd(name: str, hparams: dict[str, float], penalty: DomainPenalty | None) -> None:
    head = sgd(name, hparams | {"anneal_steps": 4})
    np.testing.assert_allclose(head.coef[0], by_hand(penalty, balanced=name != "erm"), rtol=1e-9)


def test_penalties_wait_for_annealing() -> None:
    late = sgd("cma", CMA_SET | {"anneal_steps": 1000})
    np.testing.assert_allclose(late.coef, sgd("erm-balanced").coef, rtol=1e-12)
    assert np.abs(sgd("cma", CMA_SET).coef - late.coef).max() > 1e-6


def test_fishr_with_all_rows_ends_where_a_larger_weight_without_average_does() -> None:
    """After many identical steps the gradient of the call is that of the plain penalty over 1 − γ."""
    rng = np.random.default_rng(0)
    X, y, e = rng.normal(size=(30, 3)), rng.integers(0, 2, 30), rng.integers(0, 2, 30)
    head = rng.normal(size=(1, 3))
    W = torch.tensor(head, requires_grad=True)
    penalty = Fishr(10.0, momentum=0.9, bias=False)
    gradient = torch.zeros(1, 3)
    for _ in range(300):
        Z = torch.tensor(X) @ W.T
        logits = torch.cat([-Z / 2, Z / 2], 1)
        (gradient,) = torch.autograd.grad(penalty(torch.tensor(X), logits, torch.tensor(y), torch.tensor(e)), W)
    method = find_method("fishr")
    objective = method.objective(SortedRows.sort(X, y, e, None, bias=False), 2, 0.0)
    plain = objective(head.ravel())[1]
    objective.set_weights(method.weights({"weight": 10.0, "momentum": 0.9}))
    np.testing.assert_allclose(gradient.numpy().ravel(), objective(head.ravel())[1] - plain, rtol=1e-8, atol=1e-12)


def test_sgd_ticks_after_every_setting() -> None:
    ticks: list[int] = []
    SGD.fit(FEW, find_method("vrex"), [{"weight": 1.0}, {"weight": 10.0}], 0, tick=lambda: ticks.append(1))
    assert len(ticks) == 2


def test_the_tolerance_is_relative_to_the_gradient_at_zero() -> None:
    """At 1 the fit ends where it starts; at a half the largest entry of the gradient has halved."""
    train = replace(FEW.train, features=10 * FEW.train.features)
    features = replace(FEW, splits={"train": train})
    weights = bootstrap_weights(features, seed_hash("bootstrap", 0))

    def largest_slope(head: np.ndarray) -> float:
        errors = 1 / (1 + np.exp(-train.features @ head)) - train.targets
        return float(np.abs(train.features.T @ (weights * errors)).max() / weights.sum())

    start = largest_slope(np.zeros(train.features.shape[1]))
    for tol in (1.0, 0.5):
        (head,) = converged("erm", [{}], features, l2=0.0, tol=tol)
        assert head.coef.any() == (tol < 1)
        assert largest_slope(head.coef[0]) <= tol * start * (1 + 1e-9)
