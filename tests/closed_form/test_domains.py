import pytest
import torch

from momentalign.closed_form import (
    averages,
    counts,
    domain_means,
    gram_spread,
    index_domains,
    mean_over_domains,
    number_of_domains,
    same,
    shares,
    spread,
)
from tests.references import assert_equal

DOMAINS = torch.tensor([2**40, -7, 2**40, 3, 2**40, -7])


def test_same_and_counts() -> None:
    assert same(DOMAINS[:2], DOMAINS, torch.float32).tolist() == [[1, 0, 1, 0, 1, 0], [0, 1, 0, 0, 0, 1]]
    assert counts(DOMAINS).tolist() == [3, 2, 3, 1, 3, 2]


@pytest.mark.parametrize("entries", [1, 13, 35])
def test_counts_in_blocks_of_rows(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("momentalign.closed_form._domains._ENTRIES", entries)
    assert counts(DOMAINS).tolist() == [3, 2, 3, 1, 3, 2]


@pytest.mark.parametrize(("domains", "size"), [(1, 49), (3, 41), (49, 49), (1000, 7)])
def test_number_of_domains_is_exact_in_float32(domains: int, size: int) -> None:
    labels = torch.arange(domains).repeat(size)
    assert number_of_domains(shares(labels, torch.float32)).item() == domains


def test_every_domain_counts_the_same() -> None:
    values = torch.tensor([1.0, 10.0, 2.0, 7.0, 3.0, 20.0], dtype=torch.float64)
    assert_equal(mean_over_domains(values, DOMAINS), torch.tensor((2 + 15 + 7) / 3, dtype=torch.float64), 1e-14)
    means = domain_means(values[:, None], DOMAINS)[:, 0]
    assert_equal(means, torch.tensor([2.0, 15, 2, 7, 2, 15], dtype=torch.float64), 1e-14)


def test_labels_are_found_in_ascending_order() -> None:
    labels, weights = index_domains(DOMAINS, None, torch.float64)
    assert labels.tolist() == [-7, 3, 2**40]
    third = 1 / 3
    assert weights.T.tolist() == [[0, 0.5, 0, 0, 0, 0.5], [0, 0, 0, 1, 0, 0], [third, 0, third, 0, third, 0]]


def test_a_known_number_of_domains_keeps_the_empty_ones() -> None:
    labels, weights = index_domains(torch.tensor([2, 0, 2]), 4, torch.float32)
    assert labels.tolist() == [0, 1, 2, 3]
    assert weights.T.tolist() == [[0, 1, 0], [0, 0, 0], [0.5, 0, 0.5], [0, 0, 0]]


@pytest.mark.parametrize("weighted", [False, True])
def test_gram_spread_is_the_spread_of_the_domains_vectors(weighted: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    weights = torch.rand(6, generator=generator, dtype=torch.float64) if weighted else None
    each = 1 / counts(DOMAINS).double() if weights is None else weights
    sums = torch.stack([(each[:, None] * vectors)[label == DOMAINS].sum(0) for label in DOMAINS.unique()])
    assert_equal(gram_spread(vectors @ vectors.T, DOMAINS, weights), spread(sums @ sums.T))


def test_averages() -> None:
    own, u, number, share = averages(DOMAINS, torch.float64)
    values = torch.arange(12, dtype=torch.float64).reshape(6, 2)
    assert_equal(own @ values, domain_means(values, DOMAINS))
    assert torch.equal(own, own.T)
    assert torch.equal(u, shares(DOMAINS, torch.float64))
    assert number.item() == 3
    assert_equal(share @ values[:, 0], mean_over_domains(values[:, 0], DOMAINS))


@pytest.mark.parametrize("rows", [1, 3, 49, 82])
def test_averages_of_one_domain_are_exactly_alike(rows: int) -> None:
    own, _, number, share = averages(torch.full((rows,), -4), torch.float32)
    assert number.item() == 1
    assert not (own - share).any()
