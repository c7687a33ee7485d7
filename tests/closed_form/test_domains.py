import pytest
import torch
from torch import Tensor

from momentalign.closed_form import (
    averages,
    distances,
    domain_labels,
    domain_weights,
    gram_spread,
    mean_over_domains,
    norms,
    same,
    shares,
    spread,
)
from momentalign.closed_form._domains import number_of_domains
from tests.references import assert_equal

DOMAINS = torch.tensor([2**40, -7, 2**40, 3, 2**40, -7])


def test_same_and_shares() -> None:
    assert same(DOMAINS[:2], DOMAINS, torch.float32).tolist() == [[1, 0, 1, 0, 1, 0], [0, 1, 0, 0, 0, 1]]
    assert_equal(1 / shares(DOMAINS, torch.float64), torch.tensor([3, 2, 3, 1, 3, 2], dtype=torch.float64))
    many = torch.arange(2200) % 7  # more pairs than are compared at once
    assert_equal(1 / shares(many, torch.float64), many.bincount()[many].double())


@pytest.mark.parametrize(("domains", "size"), [(1, 49), (3, 41), (49, 49), (1000, 7)])
def test_number_of_domains_is_exact_in_float32(domains: int, size: int) -> None:
    labels = torch.arange(domains).repeat(size)
    assert number_of_domains(shares(labels, torch.float32)).item() == domains


def test_every_domain_counts_the_same() -> None:
    values = torch.tensor([1.0, 10.0, 2.0, 7.0, 3.0, 20.0], dtype=torch.float64)
    assert_equal(mean_over_domains(values, DOMAINS), torch.tensor((2 + 15 + 7) / 3, dtype=torch.float64), 1e-14)


def test_labels_are_found_in_ascending_order() -> None:
    labels = domain_labels(DOMAINS)
    weights = domain_weights(DOMAINS, labels, torch.float64)
    assert labels.tolist() == [-7, 3, 2**40]
    third = 1 / 3
    assert weights.T.tolist() == [[0, 0.5, 0, 0, 0, 0.5], [0, 0, 0, 1, 0, 0], [third, 0, third, 0, third, 0]]


def test_a_known_number_of_domains_keeps_the_empty_ones() -> None:
    labels = domain_labels(torch.tensor([2, 0, 2]), 4)
    weights = domain_weights(torch.tensor([2, 0, 2]), labels, torch.float32)
    assert labels.tolist() == [0, 1, 2, 3]
    assert weights.T.tolist() == [[0, 1, 0], [0, 0, 0], [0.5, 0, 0.5], [0, 0, 0]]


def test_gram_spread_is_the_spread_of_the_domains_vectors() -> None:
    vectors = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    means = torch.stack([vectors[label == DOMAINS].mean(0) for label in DOMAINS.unique()])
    assert_equal(gram_spread(vectors @ vectors.T, DOMAINS), spread(means @ means.T))


def test_averages() -> None:
    own, u, number, share = averages(DOMAINS, torch.float64)
    values = torch.tensor([[1.0], [10.0], [2.0], [7.0], [3.0], [20.0]], dtype=torch.float64)
    assert_equal((own @ values)[:, 0], torch.tensor([2.0, 15, 2, 7, 2, 15], dtype=torch.float64), 1e-14)
    assert torch.equal(own, own.T)
    assert torch.equal(u, shares(DOMAINS, torch.float64))
    assert number.item() == 3
    assert_equal(share @ values[:, 0], mean_over_domains(values[:, 0], DOMAINS))


@pytest.mark.parametrize("rows", [1, 3, 49, 82])
def test_averages_of_one_domain_are_exactly_alike(rows: int) -> None:
    own, _, number, share = averages(torch.full((rows,), -4), torch.float32)
    assert number.item() == 1
    assert not (own - share).any()


@pytest.fixture(params=[1, 2, 5])
def vectors(request: pytest.FixtureRequest) -> Tensor:
    return torch.randn(request.param, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_spread_is_the_variance_of_the_vectors(vectors: Tensor) -> None:
    found = spread(vectors @ vectors.T)
    assert found == 0 if len(vectors) == 1 else found > 0
    torch.testing.assert_close(found, vectors.var(0, correction=0).sum(), rtol=1e-12, atol=0)


def test_norms_is_their_mean_squared_norm(vectors: Tensor) -> None:
    assert_equal(norms(vectors @ vectors.T), vectors.square().sum(1).mean(), 1e-12)


def test_distances_are_those_between_them(vectors: Tensor) -> None:
    found = distances(vectors @ vectors.T)
    torch.testing.assert_close(found, torch.cdist(vectors, vectors), rtol=1e-10, atol=1e-14)


def test_distance_of_twins_is_a_number() -> None:
    # In float32 the three terms of the square can miss zero from below.
    twin = torch.randn(1, 1000, generator=torch.Generator().manual_seed(0))
    gram = torch.cat([twin, twin]) @ torch.cat([twin, twin]).T
    gram[0, 1] += 1e-3
    assert distances(gram).tolist() == [[0, 0], [0, 0]]
