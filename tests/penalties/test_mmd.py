from itertools import combinations

import pytest
import torch
from torch import Tensor

from momentalign import MMD
from tests.penalties.agreement import assert_agrees
from tests.references import LABELS, make_batch


def kernel(a: Tensor, b: Tensor) -> Tensor:
    """Mean of the summed Gaussian kernels over all pairs."""
    squares = (a[:, None] - b).square().sum(2)
    return sum((-(10.0**exponent) * squares).exp() for exponent in range(-3, 4)).mean()


def reference(features: Tensor, head: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
    groups = [features[domains == label] for label in domains.unique()]
    distances = [kernel(a, a) + kernel(b, b) - 2 * kernel(a, b) for a, b in combinations(groups, 2)]
    return torch.stack(distances).mean()


@pytest.mark.parametrize("balance", ["balanced", "unbalanced"])
@pytest.mark.parametrize("domains", [LABELS, LABELS[:2], (4, 3, 2, 1)], ids=len)
def test_value_and_gradients_by_pairs(domains: tuple[int, ...], balance: str) -> None:
    batch = make_batch("cross_entropy", n=31, d=4, domains=domains, balance=balance)
    assert_agrees(MMD(3.0), lambda *inputs: 3 * reference(*inputs), batch)


@pytest.mark.parametrize("offset", [0, 300])
def test_wide_features_in_float32(offset: float) -> None:
    # The narrowest kernel sees a squared distance of 1e-3, and rounding leaves 1e-4 of a sample's distance to itself.
    batch = make_batch("cross_entropy", n=48, d=512)
    features = batch.features.float() + offset
    value = MMD()(features, batch.logits.float(), batch.targets, batch.domains)
    expected = reference(features.double(), batch.head, batch.targets, batch.domains)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_same_wide_features_in_two_domains() -> None:
    features, logits, targets, _ = make_batch("cross_entropy", n=48, d=512).inputs
    features, logits = (torch.cat([tensor, tensor.flip(0)]).float() for tensor in (features, logits))
    value = MMD()(features, logits, torch.cat([targets, targets.flip(0)]), torch.arange(96) // 48)
    assert value.dtype == torch.float32
    assert abs(value) < 1e-6
