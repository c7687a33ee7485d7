import pytest
import torch
from torch import Tensor

from momentalign import CMA, GradientMatching, HessianMatching, Hutchinson
from tests.penalties.agreement import assert_agrees
from tests.references import (
    CASES,
    Case,
    assert_equal,
    dense_derivatives,
    dense_spread,
    linear,
    make_batch,
    sample_losses,
)


def hessians(loss: str, features: Tensor, head: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
    """Dense, shape (K, Cd, Cd)."""
    return dense_derivatives(2, loss, features, head, targets, domains).unflatten(1, (head.numel(), head.numel()))


def spread(vectors: Tensor) -> Tensor:
    return (vectors - vectors.mean(0)).square().sum(1).mean()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_exact_diagonal(case: Case) -> None:
    def reference(*inputs: Tensor) -> Tensor:
        diagonals = hessians(case.loss, *inputs).diagonal(dim1=1, dim2=2)
        return 0.5 * dense_spread(1, case.loss, *inputs) + 3 * spread(diagonals)

    batch = make_batch(case.loss, balance=case.balance, bias=case.bias)
    assert_agrees(Hutchinson(0.5, 3.0, loss=case.loss, bias=case.bias), reference, batch)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sampled_diagonal_is_the_mean_over_the_same_signs(case: Case) -> None:
    batch = make_batch(case.loss, balance=case.balance, bias=case.bias)
    torch.manual_seed(7)
    signs = [torch.randint(0, 2, batch.head.shape).flatten() * 2.0 - 1 for _ in range(3)]

    def reference(*inputs: Tensor) -> Tensor:
        H = hessians(case.loss, *inputs)
        diagonals = torch.stack([z * (H @ z.double()) for z in signs]).mean(0)
        return dense_spread(1, case.loss, *inputs) + spread(diagonals)

    def penalty(*inputs: Tensor) -> Tensor:
        torch.manual_seed(7)
        return Hutchinson(samples=3, loss=case.loss, bias=case.bias)(*inputs)

    assert_agrees(penalty, reference, batch)


def test_sampled_diagonal_converges_to_the_exact_one() -> None:
    inputs = make_batch("cross_entropy").inputs
    exact = Hutchinson().terms(*inputs)["hessian"]
    torch.manual_seed(0)
    errors = [(Hutchinson(samples=n).terms(*inputs)["hessian"] / exact - 1).abs() for n in (10, 4000)]
    assert errors[1] < 0.02 < errors[0]


def test_a_diagonal_is_less_than_the_hessian() -> None:
    inputs = make_batch("cross_entropy").inputs
    assert Hutchinson(0.0)(*inputs) < 0.9 * HessianMatching()(*inputs)
    assert_equal(Hutchinson(2.0, 0.0)(*inputs), GradientMatching(2.0)(*inputs))


@pytest.mark.parametrize(("samples", "error"), [(0, ValueError), (2.0, TypeError), (True, TypeError)])
def test_bad_number_of_samples(samples: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"'samples' should be (at least 1|an integer), but is"):
        Hutchinson(samples=samples)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cma_on_the_diagonal_in_units_of_classes(case: Case) -> None:
    batch = make_batch(case.loss, balance=case.balance, bias=case.bias)
    classes = len(batch.head)

    def reference(features: Tensor, head: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
        """By torch.func: the diagonal of the Hessian of each domain's mean loss over the flattened head."""
        gradients, diagonals = [], []
        for label in domains.unique():
            own = domains == label

            def loss(flat: Tensor, own: Tensor = own) -> Tensor:
                logits = linear(features[own], flat.reshape(head.shape))
                return sample_losses(case.loss, logits, targets[own]).mean()

            gradients.append(torch.func.grad(loss)(head.flatten()))
            diagonals.append(torch.func.jacrev(torch.func.grad(loss))(head.flatten()).diagonal())
        first, second = spread(torch.stack(gradients)), spread(torch.stack(diagonals))
        return 0.5 * first / classes + 3 * second / classes**2

    penalty = Hutchinson(0.5, 3.0, scaling="classes", loss=case.loss, bias=case.bias)
    assert_agrees(penalty, reference, batch)


def test_scalings_of_the_diagonal_are_cmas() -> None:
    inputs = make_batch("cross_entropy", d=4, C=3).inputs
    plain = Hutchinson().terms(*inputs)
    for scaling, divisors in {"classes": (3, 9), "parameters": (225, 225)}.items():
        found = Hutchinson(scaling=scaling).terms(*inputs)
        assert_equal(found["gradient"] * divisors[0], plain["gradient"])
        assert_equal(found["hessian"] * divisors[1], plain["hessian"])
        assert_equal(found["gradient"], CMA(scaling=scaling).terms(*inputs)["gradient"])
    with pytest.raises(ValueError, match="'scaling' should be one of 'none', 'classes', 'parameters', but is 'rel"):
        Hutchinson(scaling="relative")
