from itertools import combinations

import pytest
import torch
from torch import Tensor

from momentalign import CORAL
from tests.penalties.agreement import assert_agrees
from tests.references import LABELS, make_batch


def reference(features: Tensor, head: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
    groups = [features[domains == label] for label in domains.unique()]
    distances = [
        (a.mean(0) - b.mean(0)).square().mean() + (a.T.cov() - b.T.cov()).square().mean()
        for a, b in combinations(groups, 2)
    ]
    return torch.stack(distances).mean()


@pytest.mark.parametrize("balance", ["balanced", "unbalanced"])
@pytest.mark.parametrize("domains", [LABELS, LABELS[:2], (4, 3, 2, 1)], ids=len)
def test_value_and_gradients_by_pairs(domains: tuple[int, ...], balance: str) -> None:
    batch = make_batch("cross_entropy", n=31, d=4, domains=domains, balance=balance)
    assert_agrees(CORAL(3.0), lambda *inputs: 3 * reference(*inputs), batch)


def test_terms() -> None:
    batch = make_batch("cross_entropy", n=31)
    terms = CORAL(5.0).terms(*batch.inputs)
    assert list(terms) == ["mean", "covariance"]
    moved = batch.features + batch.domains[:, None] / 2**40
    after = CORAL().terms(moved, *batch.inputs[1:])
    torch.testing.assert_close(after["covariance"], terms["covariance"])
    assert after["mean"] != terms["mean"]


def test_a_single_row_has_covariance_zero() -> None:
    features = torch.tensor([[0.0], [2.0], [1.0]])
    terms = CORAL().terms(features, torch.zeros(3, 2), torch.zeros(3, dtype=torch.long), torch.tensor([0, 0, 1]))
    assert {name: term.item() for name, term in terms.items()} == {"mean": 0.0, "covariance": 4.0}


def test_a_common_offset_costs_no_digits() -> None:
    features, logits, targets, domains = make_batch("cross_entropy", n=48, d=64).inputs
    moved = features.float() + 300
    terms = CORAL().terms(moved, logits.float(), targets, domains)
    expected = CORAL().terms(moved.double(), logits, targets, domains)
    for name, term in terms.items():
        assert term.dtype == torch.float32
        assert term.item() == pytest.approx(expected[name].item(), rel=1e-5)


def test_logits_and_targets_may_be_anything() -> None:
    features, domains = torch.randn(6, 2, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 2
    expected = CORAL()(features, torch.zeros(6, 2), torch.zeros(6, dtype=torch.long), domains)
    assert torch.equal(CORAL()(features, torch.full((6, 1), torch.inf), torch.ones(6, 3), domains), expected)
