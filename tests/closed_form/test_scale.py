import pytest
import torch

from momentalign.closed_form import unit_features, unit_scale


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_scale_is_an_exact_power(dtype: torch.dtype) -> None:
    limits = torch.finfo(dtype)
    for largest in (limits.smallest_normal, 1e-30, 0.3, 1.0, 1.1, 2.0, 1e4, 1e30, limits.max):
        scale = unit_scale(torch.tensor([largest, -largest / 3, 0.0], dtype=dtype))
        mantissa, _ = torch.frexp(scale)
        assert mantissa == 0.5
        assert 0.125 < scale * largest < 4


def test_nothing_is_scaled_to_nothing() -> None:
    X = torch.zeros(3, 2, requires_grad=True)
    assert (unit_features(X, False) == 0).all()
    assert unit_scale(torch.full((2,), 1e-45)).isfinite()
    assert not unit_scale(X).requires_grad


def test_a_bias_is_scaled_along() -> None:
    X = torch.tensor([[3.0, -5.0], [0.5, 1.0]])
    assert unit_features(X, True).equal(torch.tensor([[3.0, -5.0, 1.0], [0.5, 1.0, 1.0]]) / 8)
    assert unit_features(X, False).equal(X / 8)
    assert unit_features(X / 1e30, True)[:, -1].equal(torch.ones(2))
