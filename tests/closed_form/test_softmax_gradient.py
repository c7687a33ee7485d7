import pytest
import torch

from momentalign.closed_form import SoftmaxResiduals, softmax_gradient
from tests.closed_form.test_heads import saturated_logits


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_is_the_gradient_of_the_residuals(classes: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(classes)
    logits = (scale * torch.randn(9, classes, dtype=torch.float64, generator=generator)).requires_grad_()
    targets = torch.randint(classes, (9,), generator=generator)
    direction = torch.randn(9, classes, dtype=torch.float64, generator=generator)
    expected, found = SoftmaxResiduals(logits, targets).gradient, softmax_gradient(logits, targets)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-300)
    for one, other in zip(
        torch.autograd.grad(found, logits, direction), torch.autograd.grad(expected, logits, direction), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-300)


def test_is_what_the_loss_gives_for_the_gradient_alone() -> None:
    logits, targets = torch.tensor([[1.0, 2.0, 0.5]]), torch.tensor([2])
    assert torch.equal(SoftmaxResiduals.gradient_of(logits, targets), softmax_gradient(logits, targets))


def test_derivatives() -> None:
    logits = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    targets = torch.tensor([0, 2, 1, 0])
    assert torch.autograd.gradcheck(softmax_gradient, (logits, targets))
    assert torch.autograd.gradgradcheck(softmax_gradient, (logits, targets))


@pytest.mark.parametrize("off", [0, 1], ids=["right", "wrong"])
def test_saturated_predictions_keep_their_digits(off: int) -> None:
    exact, targets = saturated_logits(5).double().requires_grad_(), (torch.arange(24) + off) % 4
    single = exact.detach().float().requires_grad_()
    direction = torch.randn(24, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    values = softmax_gradient(exact, targets), softmax_gradient(single, targets)
    gradients = [
        torch.autograd.grad(value, logits, direction.to(value.dtype))[0]
        for value, logits in zip(values, (exact, single), strict=True)
    ]
    for mine, its in (values, gradients):
        torch.testing.assert_close(its.double(), mine, rtol=1e-4, atol=0)
