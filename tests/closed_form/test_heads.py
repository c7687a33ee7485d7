import pytest
import torch
from torch import Tensor

from momentalign.closed_form import HEADS, LogisticResiduals, Residuals, SoftmaxResiduals
from tests.references import LOSSES, LOSSES_AND_ORDERS, ORDERS, assert_equal, make_batch, residual_tensors

each_loss = pytest.mark.parametrize("loss", LOSSES)
each_order = pytest.mark.parametrize(("loss", "order"), LOSSES_AND_ORDERS)


def residuals_and_tensors(loss: str, order: int, seed: int = 0, n: int = 8) -> tuple[Residuals, Tensor]:
    batch = make_batch(loss, n, C=4, seed=seed)
    return HEADS[loss](batch.logits, batch.targets), residual_tensors(order, loss, batch.logits, batch.targets)


@each_loss
def test_gradient_is_the_first_residual(loss: str) -> None:
    residuals, tensors = residuals_and_tensors(loss, 1)
    assert_equal(residuals.gradient, tensors)


@each_order
def test_grams_of_a_block_with_itself(loss: str, order: int) -> None:
    residuals, tensors = residuals_and_tensors(loss, order)
    assert_equal(residuals.grams([order], residuals)[order], tensors @ tensors.T)


@each_order
def test_grams_of_two_blocks(loss: str, order: int) -> None:
    residuals, tensors = residuals_and_tensors(loss, order)
    others, other_tensors = residuals_and_tensors(loss, order, seed=1, n=5)
    assert_equal(residuals.grams([order], others)[order], tensors @ other_tensors.T)


@each_loss
def test_orders_asked_for_together_are_those_asked_for_alone(loss: str) -> None:
    residuals, _ = residuals_and_tensors(loss, 1)
    grams, energies = residuals.grams(ORDERS[loss], residuals), residuals.energies(ORDERS[loss])
    assert tuple(grams) == tuple(energies) == ORDERS[loss]
    for order in ORDERS[loss]:
        assert torch.equal(grams[order], residuals.grams([order], residuals)[order])
        assert torch.equal(energies[order], residuals.energies([order])[order])


@each_order
def test_energies_are_squared_norms(loss: str, order: int) -> None:
    residuals, tensors = residuals_and_tensors(loss, order)
    assert_equal(residuals.energies([order])[order], tensors.square().sum(1))


@each_loss
def test_second_residual_as_operator_and_diagonal(loss: str) -> None:
    residuals, tensors = residuals_and_tensors(loss, 2)
    n, classes = residuals.gradient.shape
    matrices = tensors.reshape(n, classes, classes)
    vectors = torch.randn(n, classes, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert_equal(residuals.hessian_times(vectors), (matrices @ vectors[:, :, None])[:, :, 0])
    assert_equal(residuals.hessian_diagonal(), matrices.diagonal(dim1=1, dim2=2))


@pytest.mark.parametrize(
    ("loss", "order"), [pair for pair in LOSSES_AND_ORDERS if pair[0] != "cross_entropy" or pair[1] < 3]
)
def test_coefficients_hold_the_residual_tensor(loss: str, order: int) -> None:
    residuals, tensors = residuals_and_tensors(loss, order)
    # As the direct route has them for one feature that is one.
    blocks = [row.reshape([-1, *[1] * order]) for row in residuals.coefficients(order)]
    assert_equal(torch.stack([residuals.dense(order, block).flatten() for block in blocks]), tensors)
    assert_equal(residuals.inner(order, torch.stack(blocks)), tensors @ tensors.T)


def test_logistic_polynomials_are_derivatives_of_the_sigmoid() -> None:
    logits = torch.linspace(-3, 3, 13, dtype=torch.float64, requires_grad=True)
    targets = torch.arange(13) % 2
    residuals = LogisticResiduals(logits.detach()[:, None], targets)
    derivative = logits.sigmoid() - targets
    for order in range(1, 9):
        assert_equal(residuals.coefficients(order)[:, 0], derivative.detach())
        (derivative,) = torch.autograd.grad(derivative.sum(), logits, create_graph=True)


def test_logistic_polynomials_of_a_high_order_keep_their_digits() -> None:
    """At p = ½ the derivatives of the sigmoid are (2^r − 1) B_r / r: Bernoulli numbers, zero for odd orders above 1."""
    residuals = LogisticResiduals(torch.zeros(1, 1, dtype=torch.float64), torch.zeros(1))
    for order, bernoulli in ((4, -1 / 30), (8, -1 / 30), (14, 7 / 6), (20, -174611 / 330), (30, 8615841276005 / 14322)):
        expected = (2**order - 1) * bernoulli / order
        assert residuals.coefficients(order).item() == pytest.approx(expected, rel=1e-8)
        assert residuals.coefficients(order + 1).item() == 0


def test_logistic_keeps_its_digits_next_to_zero_and_one() -> None:
    logits = torch.tensor([[-40.0], [-17.0], [17.0], [40.0]])
    targets = torch.zeros(4)
    found, exact = LogisticResiduals(logits, targets), LogisticResiduals(logits.double(), targets)
    for order in (2, 3, 4):
        torch.testing.assert_close(found.coefficients(order).double(), exact.coefficients(order), rtol=1e-5, atol=0)


def saturated_logits(classes: int) -> Tensor:
    """Four likeliest classes, or all; probabilities within 1e-5 of one-hot, the nearest within 1e-8."""
    n = 24
    logits = torch.randn(n, classes, generator=torch.Generator().manual_seed(0))
    margin = torch.linspace(16, 20, n) + torch.tensor(float(classes)).log()
    logits[torch.arange(n), torch.arange(n) % min(classes, 4)] += margin
    assert 0 < (1 - logits.double().softmax(1).max(1).values).max() < 1e-5
    return logits


def central_moments(order: int, P: Tensor) -> Tensor:
    """Σ_a p_a (e_a − p)^{⊗r} for each sample, flattened."""
    deviations = torch.eye(P.shape[1], dtype=P.dtype) - P[:, None, :]
    powers = deviations
    for _ in range(order - 1):
        powers = (powers[..., :, None] * deviations[..., None, :]).flatten(2)
    return torch.einsum("na,nat->nt", P, powers)


def textbook_gram(order: int, P: Tensor) -> Tensor:
    """The inner products as polynomials of the probabilities."""

    def both(k: int, r: int) -> Tensor:
        product = P.pow(k) @ P.pow(r).T
        return product + product.T

    s, m = P @ P.T, both(1, 2)
    if order == 2:
        return s + s**2 - m
    squares = P.square() @ P.square().T
    return s + 3 * s**2 + 4 * s**3 - 3 * (1 + 2 * s) * m + 2 * both(1, 3) + 6 * squares


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("classes", [2, 5, 12])
def test_saturated_softmax_keeps_its_digits_where_the_textbook_does_not(order: int, classes: int) -> None:
    logits, targets = saturated_logits(classes), torch.zeros(24, dtype=torch.long)
    tensors = central_moments(order, logits.double().softmax(1))
    exact, norms = tensors @ tensors.T, tensors.norm(dim=1)

    def error(gram: Tensor) -> float:
        return ((gram.double() - exact).abs() / (norms[:, None] * norms)).max().item()

    residuals, again = (SoftmaxResiduals(logits, targets) for _ in range(2))
    assert error(residuals.grams([order], residuals)[order]) < 1e-3
    assert error(residuals.grams([order], again)[order]) < 1e-3
    energies = residuals.energies([order])[order].double()
    torch.testing.assert_close(energies, norms.square(), rtol=1e-3, atol=0)
    # The textbook has not one digit left, though it is right where nothing is saturated.
    assert error(textbook_gram(order, logits.softmax(1))) > 1
    mild = torch.randn(6, classes, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(1)
    assert_equal(textbook_gram(order, mild), central_moments(order, mild) @ central_moments(order, mild).T)


def test_saturated_softmax_keeps_the_digits_of_its_second_residual() -> None:
    logits, targets = saturated_logits(5), torch.zeros(24, dtype=torch.long)
    found, exact = SoftmaxResiduals(logits, targets), SoftmaxResiduals(logits.double(), targets)
    P = logits.double().softmax(1)
    A = P.diag_embed() - P[:, :, None] * P[:, None, :]
    vectors = torch.arange(5.0).expand(24, 5)
    times = (A @ vectors.double()[:, :, None])[:, :, 0]
    torch.testing.assert_close(found.hessian_times(vectors).double(), times, rtol=1e-4, atol=0)
    torch.testing.assert_close(found.hessian_diagonal().double(), exact.hessian_diagonal(), rtol=1e-4, atol=0)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_saturated_softmax_keeps_the_digits_of_its_gradients(order: int) -> None:
    # Sure and right: of the logarithm, so that every sample's gradient counts, however small its residual.
    logits, found = saturated_logits(5), []
    for dtype in (torch.float32, torch.float64):
        leaf = logits.to(dtype).requires_grad_()
        residuals = SoftmaxResiduals(leaf, logits.argmax(1))
        value = residuals.energies([order])[order].log()
        diagonal = residuals.grams([order], residuals)[order].diagonal().log()
        found.append([tensor.double() for tensor in (value, diagonal, *torch.autograd.grad(value.sum(), leaf))])
    for single, double in zip(*found, strict=True):
        torch.testing.assert_close(single, double, rtol=0, atol=1e-3)


@pytest.mark.parametrize("off", [0, 1], ids=["right", "wrong"])
def test_saturated_softmax_keeps_the_digits_of_its_first_residual(off: int) -> None:
    targets = (torch.arange(24) + off) % 4
    direction = torch.randn(24, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = []
    for dtype in (torch.float32, torch.float64):
        leaf = saturated_logits(5).to(dtype).requires_grad_()
        value = SoftmaxResiduals(leaf, targets).gradient
        found.append((value.double(), torch.autograd.grad(value, leaf, direction.to(dtype))[0].double()))
    for single, double in zip(*found, strict=True):
        torch.testing.assert_close(single, double, rtol=1e-4, atol=0)


@pytest.mark.parametrize("loss", ["cross_entropy", "logistic"])
def test_huge_logits_are_finite(loss: str) -> None:
    logits = torch.tensor([[1e4], [-1e4], [0.0], [1e4]]) * torch.ones(1 if loss == "logistic" else 3)
    logits = (logits * torch.tensor([1.0, -1.0, 0.5])[: logits.shape[1]]).requires_grad_()
    residuals = HEADS[loss](logits, torch.tensor([0, 1, 0, 1]))
    grams = torch.stack(list(residuals.grams(ORDERS[loss], residuals).values()))
    energies = torch.stack(list(residuals.energies(ORDERS[loss]).values()))
    (gradient,) = torch.autograd.grad(grams.sum() + energies.sum(), logits)
    assert grams.isfinite().all()
    assert energies.isfinite().all()
    assert gradient.isfinite().all()
