import pytest
import torch
from torch import Tensor

from momentalign.closed_form import distances, norms, spread
from tests.references import assert_equal


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
