"""The domains' losses, their derivatives and the heads that minimize them."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from momentalign.theory import DomainLosses
from momentalign.theory._minimize import mixture_minimizer, solve_hessian
from tests.references import assert_equal
from tests.theory.problems import LOSSES, make_losses, random_head, reference_derivatives, reference_values


@pytest.mark.parametrize("loss", LOSSES)
def test_values_and_derivatives(loss: str) -> None:
    losses = make_losses(loss)
    head = random_head(losses)
    assert_equal(torch.from_numpy(losses.values(head)), reference_values(losses, head))
    gradients = reference_derivatives(1, losses, head) + losses.l2 * head.flatten()
    assert_equal(losses.gradients(head).flatten(1), gradients)
    for order, norms in losses.derivative_norms(head, 2).items():
        derivatives = reference_derivatives(order, losses, head)
        assert_equal(torch.from_numpy(norms), torch.cdist(derivatives, derivatives))


def test_data_frames_and_tensors() -> None:
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(6, 2))
    y, domains = [0, 1, 0, 1, 0, 1], list("aaabbb")
    frame = pandas.DataFrame({"p": X[:, 0], "q": X[:, 1]})
    plain = DomainLosses(X, y, domains)
    series = DomainLosses(frame, pandas.Series(y), pandas.Series(domains, dtype="category"))
    tensors = DomainLosses(torch.from_numpy(X), torch.tensor(y), np.array(domains))
    head = random_head(plain)
    for other in (series, tensors):
        assert other.names == plain.names
        np.testing.assert_array_equal(other.values(head), plain.values(head))


def test_head_of_another_shape() -> None:
    with pytest.raises(ValueError, match=r"'head' .*\(3, 3\)"):
        make_losses().values(np.zeros((3, 2)))


@pytest.mark.parametrize("loss", LOSSES)
def test_minimum_is_stationary_and_that_of_another_method(loss: str) -> None:
    losses = make_losses(loss)
    weights = np.array([0.5, 0.3, 0.2])
    far = torch.full(losses.shape, 8.0, dtype=torch.float64)  # saturated: a Newton step goes far beyond the minimum
    for start in (None, far):
        head = mixture_minimizer(losses, weights, start)
        assert torch.einsum("k,kcd->cd", torch.from_numpy(weights), losses.gradients(head)).norm() < 1e-10

    def value(flat: np.ndarray) -> float:
        return float(weights @ losses.values(flat.reshape(losses.shape)))

    other = minimize(value, np.zeros(head.numel()), method="BFGS", options={"gtol": 1e-6})
    assert value(head.numpy().ravel()) == pytest.approx(other.fun, abs=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_solutions_with_the_hessian(loss: str) -> None:
    losses = make_losses(loss)
    head = random_head(losses)
    right = torch.stack([head, 2 * head + 1])
    found = solve_hessian(losses.mixture(np.full(3, 1 / 3)), head, right).flatten(1)
    dense = reference_derivatives(2, losses, head).mean(0).reshape(head.numel(), -1)
    assert_equal(found @ (dense + losses.l2 * torch.eye(len(dense), dtype=dense.dtype)), right.flatten(1), 1e-8)


def test_separable_and_badly_scaled_features() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(36, 2)) * [1e3, 1.0]
    losses = DomainLosses(X, X[:, 0] > 0, np.repeat([0, 1, 2], 12), loss="logistic", l2=1e-4)
    for domain, weights in enumerate(np.eye(3)):
        assert losses.gradients(mixture_minimizer(losses, weights))[domain].norm() < 1e-7


def test_columns_of_other_units_are_fitted_or_named() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) * [1.0, 1e7] + [0.0, 1.7e9]  # a timestamp
    losses = DomainLosses(X, np.arange(60) % 2, np.repeat(["a", "b", "c"], 20), loss="logistic")
    for index, weights in enumerate(np.eye(3)):
        gradient = losses.gradients(mixture_minimizer(losses, weights))[index]
        assert (gradient.abs() < 1e-9 * losses.inputs.abs().max(0).values).all()
    further = DomainLosses(np.exp(X[:, :1] * 40), losses.targets, losses.domains, loss="logistic", l2=1e-30)
    with pytest.warns(ConvergenceWarning, match="Standardise"):
        [mixture_minimizer(further, weights) for weights in np.eye(3)]
