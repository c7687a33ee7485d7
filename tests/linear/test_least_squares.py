import tracemalloc

import numpy as np
import pytest
import torch

from momentalign import MomentAlignment
from momentalign.linear import AlignedLeastSquares, SortedRows, fit_least_squares, fit_least_squares_path
from tests.references import domain_losses, make_batch

SCALINGS = ("none", "classes", "parameters", "relative")


def reference(batch, head: np.ndarray, weight: float, scaling: str) -> tuple[float, np.ndarray]:
    leaf = torch.tensor(head, requires_grad=True)
    logits = batch.features @ leaf[:, :2].T + (leaf[:, 2] if batch.bias else 0)
    penalty = MomentAlignment({1: weight}, loss="squared_error", scaling=scaling, bias=batch.bias)
    value = domain_losses(batch.loss, batch.features, leaf, batch.targets, batch.domains).mean()
    value = value + 0.05 * leaf[:, :2].square().sum()
    value = value + penalty(batch.features, logits, batch.targets, batch.domains)
    value.backward()
    return value.item(), leaf.grad.numpy()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_value_and_gradient_are_those_of_the_penalty(scaling: str, bias: bool) -> None:
    batch = make_batch("squared_error", bias=bias)
    rows = SortedRows.sort(batch.features.numpy(), batch.targets.numpy(), batch.domains.numpy(), None, bias=bias)
    objective = AlignedLeastSquares(rows, scaling=scaling)
    objective.set_weights(2.0, 0.1)
    value, gradient = objective(batch.head.numpy().ravel())
    expected, by_head = reference(batch, batch.head.numpy(), 2.0, scaling)
    assert value == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(gradient, by_head.ravel(), atol=1e-10 * np.abs(by_head).max())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_the_gradient_vanishes_at_the_solution(scaling: str, bias: bool) -> None:
    batch = make_batch("squared_error", n=60, bias=bias)
    head = fit_least_squares(
        *(column.numpy() for column in (batch.features, batch.targets, batch.domains)),
        2.0,
        l2=0.1,
        scaling=scaling,
        bias=bias,
        tol=1e-9,
    )
    W = np.column_stack([head.coef, head.intercept]) if bias else head.coef
    value, gradient = reference(batch, W, 2.0, scaling)
    assert np.abs(gradient).max() < 1e-8
    assert head.objective == pytest.approx(value)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_an_exact_fit_needs_no_penalty(scaling: str) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    Y = X @ np.array([[1.0, -2.0], [0.5, 0.0], [3.0, 1.0]]) + 4
    head = fit_least_squares(X, Y, np.arange(40) % 2, 100.0, l2=0.0, scaling=scaling)
    np.testing.assert_allclose(head.intercept, 4, rtol=1e-8)
    assert head.objective == pytest.approx(0, abs=1e-10)


def test_sample_weights_are_repeated_rows() -> None:
    batch = make_batch("squared_error", n=60)
    columns = [column.numpy() for column in (batch.features, batch.targets, batch.domains)]
    times = np.random.default_rng(0).integers(0, 3, 60)
    weighted = fit_least_squares(*columns, 1.0, sample_weight=times.astype(float), tol=1e-9)
    repeated = fit_least_squares(*(np.repeat(column, times, axis=0) for column in columns), 1.0, tol=1e-9)
    np.testing.assert_allclose(weighted.coef, repeated.coef, rtol=1e-7)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_path_gives_the_fits_of_each_alone(scaling: str) -> None:
    batch = make_batch("squared_error", n=60)
    columns = [column.numpy() for column in (batch.features, batch.targets, batch.domains)]
    weights, l2s = [0.0, 1.0, 1.0, 0.1], [0.1, 0.1, 1.0, 0.01]
    path = fit_least_squares_path(*columns, weights, l2=l2s, scaling=scaling, tol=1e-9)
    for weight, l2, head in zip(weights, l2s, path, strict=True):
        alone = fit_least_squares(*columns, weight, l2=l2, scaling=scaling, tol=1e-9)
        np.testing.assert_allclose(head.coef, alone.coef, rtol=1e-9)
        assert head.order_weights == {1: weight}
    with pytest.raises(ValueError, match="one for each of the 4 settings, but has 1"):
        fit_least_squares_path(*columns, weights, l2=[0.1])


@pytest.mark.parametrize("scaling", SCALINGS)
def test_many_domains_are_added_up_one_by_one(scaling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X, Y, domains = rng.normal(size=(300, 100)), rng.normal(size=(300, 1)), np.arange(300)
    expected = fit_least_squares(X, Y, domains, 1.0, l2=0.1, scaling=scaling, tol=1e-9)
    monkeypatch.setattr("momentalign.linear._least_squares._HELD", 100_000)
    tracemalloc.start()
    found = fit_least_squares(X, Y, domains, 1.0, l2=0.1, scaling=scaling, tol=1e-9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-6)
    assert peak < 8 * 300 * 100**2 / 2  # numbers of one matrix for each domain, 24 MB
