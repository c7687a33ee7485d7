import pytest
import torch
from torch import Tensor

from momentalign.closed_form import coral_distances
from tests.references import LABELS

SIZES = [(6, 6), (2, 9, 4), (1, 5, 3), (1, 1)]
cases = pytest.mark.parametrize("sizes", SIZES, ids=str)


def problem(sizes: tuple[int, ...], d: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(sum(sizes))
    domains = torch.repeat_interleave(torch.tensor(LABELS[: len(sizes)]), torch.tensor(sizes))
    features = torch.randn(sum(sizes), d, dtype=torch.float64, generator=generator)
    return features.requires_grad_(), domains[torch.randperm(len(domains), generator=generator)]


@cases
@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0), (1.0, 0.5)], ids=str)
def test_derivatives(sizes: tuple[int, ...], weights: tuple[float, float]) -> None:
    """Those of its values, which are tested with the penalty; one of the two may be left out of the loss."""
    features, domains = problem(sizes, 2)

    def total(features: Tensor) -> Tensor:
        mean, covariance = coral_distances(features, domains)
        return weights[0] * mean + weights[1] * covariance

    assert torch.autograd.gradcheck(total, features)
    assert torch.autograd.gradgradcheck(total, features)


@pytest.mark.parametrize("rows", [1, 7, 49])
def test_one_domain_is_exactly_zero(rows: int) -> None:
    features = torch.randn(rows, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    values = coral_distances(features, torch.full((rows,), 3))
    assert [value.item() for value in values] == [0, 0]
    assert not torch.autograd.grad(sum(values), features)[0].any()
