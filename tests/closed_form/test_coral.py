import itertools

import pytest
import torch
from torch import Tensor

from momentalign.closed_form import coral_distances
from tests.references import LABELS

SIZES = [(6, 6), (2, 9, 4), (1, 5, 3), (1, 1)]
cases = pytest.mark.parametrize("sizes", SIZES, ids=str)


def problem(sizes: tuple[int, ...], d: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(sum(sizes))
    domains = torch.repeat_interleave(torch.tensor(LABELS[: len(sizes)]), torch.tensor(sizes))
    features = torch.randn(sum(sizes), d, dtype=torch.float64, generator=generator)
    return features.requires_grad_(), domains[torch.randperm(len(domains), generator=generator)]


def by_definition(features: Tensor, domains: Tensor) -> tuple[Tensor, Tensor]:
    """Means and covariances of each domain, compared pair by pair."""
    groups = [features[domains == label] for label in domains.unique()]
    means = [group.mean(0) for group in groups]
    covariances = [
        torch.cov(group.T) if len(group) > 1 else features.new_zeros(2 * (group.shape[1],)) for group in groups
    ]
    pairs = list(itertools.combinations(range(len(groups)), 2))
    mean, covariance = (
        torch.stack([(moments[e] - moments[f]).square().mean() for e, f in pairs]).mean()
        for moments in (means, covariances)
    )
    return mean, covariance


@cases
@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0), (2.0, 0.7)], ids=str)
def test_values_and_gradients_are_those_of_the_definition(sizes: tuple[int, ...], weights: tuple[float, float]) -> None:
    features, domains = problem(sizes)
    found, expected = coral_distances(features, domains), by_definition(features, domains)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-14)
    totals = [weights[0] * mean + weights[1] * covariance for mean, covariance in (found, expected)]
    ours, theirs = (torch.autograd.grad(total, features)[0] for total in totals)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("term", [0, 1])
def test_one_of_the_two_may_be_left_out_of_the_loss(term: int) -> None:
    features, domains = problem((2, 9, 4))
    ours = torch.autograd.grad(coral_distances(features, domains)[term], features)[0]
    theirs = torch.autograd.grad(by_definition(features, domains)[term], features)[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-13)


@cases
def test_second_derivatives(sizes: tuple[int, ...]) -> None:
    features, domains = problem(sizes, 2)

    def total(features: Tensor) -> Tensor:
        mean, covariance = coral_distances(features, domains)
        return mean + 0.5 * covariance

    assert torch.autograd.gradcheck(total, features)
    assert torch.autograd.gradgradcheck(total, features)


@pytest.mark.parametrize("rows", [1, 7, 49])
def test_one_domain_is_exactly_zero(rows: int) -> None:
    features = torch.randn(rows, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    values = coral_distances(features, torch.full((rows,), 3))
    assert [value.item() for value in values] == [0, 0]
    assert not torch.autograd.grad(sum(values), features)[0].any()
