import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from momentalign.theory import DomainLosses, _minimize, transfer_report
from momentalign.theory._minimize import WeightedLoss, domain_minimizers, minimizer, mixture_minimizer
from tests.references import assert_equal
from tests.theory.problems import LOSSES, make_losses, random_head


@pytest.mark.parametrize("loss", LOSSES)
def test_minimum_is_stationary_and_that_of_scipy(loss: str) -> None:
    losses = make_losses(loss)
    weights = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    head = mixture_minimizer(losses, weights)
    gradient = torch.einsum("k,kcd->cd", weights, losses.gradients(head))
    assert gradient.norm() < 1e-10

    def value(flat: np.ndarray) -> float:
        return float(weights.numpy() @ losses.values(flat.reshape(losses.shape)))

    other = minimize(value, np.zeros(head.numel()), method="BFGS", options={"gtol": 1e-6})
    assert value(head.numpy().ravel()) == pytest.approx(other.fun, abs=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_conjugate_gradients_agree_with_the_factorised_hessian(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = make_losses(loss)
    dense = domain_minimizers(losses)
    function = WeightedLoss.mixture(losses, torch.full((3,), 1 / 3, dtype=torch.float64))
    head = random_head(losses)
    right = torch.stack([head, 2 * head + 1])
    solved = function.solve(function.residuals(head), right)
    monkeypatch.setattr(_minimize, "DENSE", 0)
    assert_equal(function.solve(function.residuals(head), right), solved, 1e-8)
    for found, expected in zip(domain_minimizers(losses), dense, strict=True):
        assert_equal(found, expected, 1e-7)


def test_separable_and_badly_scaled_features() -> None:
    losses = make_losses("logistic", shift=0.0, l2=1e-4)
    losses.inputs = losses.inputs * torch.tensor([1e3, 1.0, 1.0], dtype=torch.float64)
    losses.targets = (losses.inputs[:, 0] > 0).long()
    for domain, head in enumerate(domain_minimizers(losses)):
        assert losses.gradients(head)[domain].norm() < 1e-7


def test_steps_that_overshoot_are_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = make_losses("logistic", l2=1e-3)
    function = WeightedLoss.mixture(losses, torch.full((3,), 1 / 3, dtype=torch.float64))
    start = torch.full(losses.shape, 8.0, dtype=torch.float64)  # saturated: a Newton step goes far beyond the minimum
    residuals = function.residuals(start)
    full = start + function.solve(residuals, -function.gradient(start, residuals)[None])[0]
    assert function.value(full) > function.value(start)
    evaluated = []

    def value(self: WeightedLoss, head: torch.Tensor) -> float:
        evaluated.append(head)
        assert len(evaluated) < 200
        return value_of(self, head)

    value_of = WeightedLoss.value
    monkeypatch.setattr(WeightedLoss, "value", value)
    head = minimizer(function, start)
    assert function.gradient(head, function.residuals(head)).norm() < 1e-10


def test_says_when_it_has_not_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = make_losses()
    monkeypatch.setattr(_minimize, "_ITERATIONS", 1)
    function = WeightedLoss.mixture(losses, torch.full((3,), 1 / 3, dtype=torch.float64))
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 Newton steps"):
        minimizer(function, torch.zeros(losses.shape, dtype=torch.float64))


def test_columns_of_other_units_are_fitted_or_named() -> None:
    rng = np.random.default_rng(0)
    X, y, site = rng.normal(size=(60, 2)), np.arange(60) % 2, np.repeat(["a", "b", "c"], 20)
    X[:, 1] = 1.7e9 + 1e7 * X[:, 1]  # a timestamp
    losses = DomainLosses(X, y, site, loss="logistic")
    for index, head in enumerate(domain_minimizers(losses)):
        gradient = losses.gradients(head)[index]
        assert (gradient.abs() < 1e-9 * losses.inputs.abs().max(0).values).all()
    with pytest.raises(ValueError, match=r"features should be standardised, .* raise 'l2'"):
        transfer_report(X, y, site, resamples=20, restarts=0)
