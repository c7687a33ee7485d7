import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from momentalign import CMA, HGP, IRM, Fishr, Hutchinson, VREx
from momentalign.linear import LinearHead
from momentalign.penalties import DomainPenalty
from momentalign.probing import find_method, project
from momentalign.probing._sgd import SgdSettings, fit_sgd
from tests.probing.problems import spurious_data

FEATURES = project(spurious_data(120, 40), isr_class=0)
TRAIN = FEATURES.train
SETTINGS = SgdSettings(epochs=3, batch_size=50, learning_rate=0.1)
CMA_SET = {"gradient_weight": 100.0, "hessian_weight": 200.0, "anneal_steps": 4}


def fit(name: str, hparams: dict[str, float] | None = None, seed: int = 0, **options: object) -> LinearHead:
    settings = options.pop("settings", SETTINGS)
    return fit_sgd(
        find_method(name),
        TRAIN,
        hparams or {},
        settings,  # type: ignore[arg-type]
        classes=2,
        domains=2,
        l2=0.0,
        seed=seed,
        **options,  # type: ignore[arg-type]
    )


def by_hand(penalty: DomainPenalty | None, *, balanced: bool) -> np.ndarray:
    """The same steps written out."""
    order = torch.Generator().manual_seed(0)
    X, y, e = (torch.from_numpy(column) for column in (TRAIN.features, TRAIN.targets, TRAIN.domains))
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


def test_steps_are_those_of_plain_sgd() -> None:
    np.testing.assert_allclose(fit("erm").coef[0], by_hand(None, balanced=False), rtol=1e-10)
    np.testing.assert_allclose(fit("coral").coef[0], by_hand(None, balanced=False), rtol=1e-10)
    np.testing.assert_allclose(fit("erm-balanced").coef[0], by_hand(None, balanced=True), rtol=1e-10)
    penalty = CMA(100.0, 200.0, anneal_steps=4, bias=False, scaling="parameters")
    np.testing.assert_allclose(fit("cma", CMA_SET).coef[0], by_hand(penalty, balanced=True), rtol=1e-10)


@pytest.mark.parametrize(
    ("name", "hparams", "penalty"),
    [
        ("hgp", {"gradient_weight": 2.0, "hessian_weight": 3.0}, HGP(2.0, 3.0, anneal_steps=4, bias=False)),
        (
            "hutchinson",
            {"gradient_weight": 2.0, "hessian_weight": 3.0},
            Hutchinson(2.0, 3.0, anneal_steps=4, bias=False),
        ),
        ("irm", {"weight": 5.0}, IRM(5.0, anneal_steps=4, bias=False)),
        ("vrex", {"weight": 50.0}, VREx(50.0, anneal_steps=4)),
        ("fishr", {"weight": 5.0, "momentum": 0.9}, Fishr(5.0, momentum=0.9, anneal_steps=4, bias=False)),
    ],
)
def test_penalties_on_batches_are_those_of_their_classes(
    name: str, hparams: dict[str, float], penalty: DomainPenalty
) -> None:
    found = fit(name, hparams | {"anneal_steps": 4}).coef[0]
    np.testing.assert_allclose(found, by_hand(penalty, balanced=True), rtol=1e-9)


def test_penalties_wait_for_annealing() -> None:
    late = fit("cma", CMA_SET | {"anneal_steps": 1000})
    np.testing.assert_allclose(late.coef, fit("erm-balanced").coef, rtol=1e-12)
    assert np.abs(fit("cma", CMA_SET).coef - late.coef).max() > 1e-6


def test_a_seed_is_the_order_of_the_batches_alone() -> None:
    heads: dict[int, list[np.ndarray]] = {0: [], 1: []}
    for seed, seen in heads.items():
        tiny = SgdSettings(epochs=1, batch_size=50, learning_rate=1e-12)
        fit("erm", seed=seed, settings=tiny, watch=lambda step, loss, head, seen=seen: seen.append(head))
    np.testing.assert_allclose(heads[0][0], heads[1][0], atol=1e-9)  # the first head
    assert np.abs(fit("erm", seed=0).coef - fit("erm", seed=1).coef).max() > 1e-4


@pytest.mark.parametrize("name", ["fishr", "hgp", "hutchinson", "irm", "vrex", "groupdro", "moment-alignment"])
def test_every_method_moves_the_head_its_own_way(name: str) -> None:
    method = find_method(name)
    hparams = {key: values[-1] for key, values in method.grid.items()}
    if method.penalised:
        hparams["anneal_steps"] = 2
    head = fit(name, hparams, settings=SgdSettings(3, 50, 1e-3))
    assert np.isfinite(head.coef).all() or not head.converged
    assert np.abs(head.coef - fit("erm-balanced", settings=SgdSettings(3, 50, 1e-3)).coef).max() > 1e-9


def test_watchers_see_every_step_and_divergence_ends_the_fit() -> None:
    steps: list[int] = []
    head = fit("erm", watch=lambda step, loss, head: steps.append(step))
    assert steps == list(range(9)) == list(range(SETTINGS.steps(120)))
    assert head.n_iter == 9
    wild = fit("vrex", {"weight": 1e4, "anneal_steps": 0}, settings=SgdSettings(9, 50, 1e300))
    assert not wild.converged
    assert wild.n_iter < 27


def test_a_last_step_out_of_bounds_has_not_converged() -> None:
    wild = fit("vrex", {"weight": 1e4, "anneal_steps": 0}, settings=SgdSettings(1, 120, 1e308))
    assert np.isfinite(wild.objective)
    assert not np.isfinite(wild.coef).all()
    assert not wild.converged
