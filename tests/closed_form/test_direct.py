import pytest
import torch

from momentalign.closed_form import (
    HEADS,
    SoftmaxResiduals,
    direct_size,
    domain_blocks,
    domain_labels,
    domain_weights,
    with_constant,
)
from tests.references import CASES_AND_ORDERS, Case, assert_equal, make_batch, routes, solved

served = pytest.mark.parametrize(
    ("case", "order"),
    [(case, order) for case, order in CASES_AND_ORDERS if "direct" in routes(case.loss, order)],
    ids=str,
)


def test_there_is_no_third_order_of_the_softmax() -> None:
    assert direct_size(3, SoftmaxResiduals, 2, 2) is None


def test_two_classes_take_one_second_moment() -> None:
    residuals = SoftmaxResiduals(torch.randn(5, 2), torch.zeros(5, dtype=torch.long))
    assert residuals.coefficients(2).shape == (5, 1)
    assert SoftmaxResiduals(torch.randn(5, 7), torch.zeros(5, dtype=torch.long)).coefficients(2).shape == (5, 21)


def test_a_domain_without_samples_is_zero() -> None:
    batch = make_batch("cross_entropy", domains=(0, 2))
    weights = domain_weights(batch.domains, domain_labels(batch.domains, 3), torch.float64)
    residuals = SoftmaxResiduals(batch.logits, batch.targets)
    zero = domain_blocks(2, residuals, batch.features, weights, True).flatten(1).abs().sum(1) == 0
    assert zero.tolist() == [False, True, False]


def test_the_bias_is_the_last_feature() -> None:
    features = torch.tensor([[2.0, 3.0]])
    assert with_constant(features, True).tolist() == [[2.0, 3.0, 1.0]]
    assert with_constant(features, False) is features


@served
def test_rows_in_turn_give_the_same_value_and_gradient(case: Case, order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    batch, _ = solved(case, order)
    weights = domain_weights(batch.domains, domain_labels(batch.domains, None), torch.float64)
    features = batch.features.clone().requires_grad_()

    def value_and_gradient() -> tuple[torch.Tensor, torch.Tensor]:
        residuals = HEADS[case.loss](batch.logits, batch.targets)
        vectors = domain_blocks(order, residuals, features, weights, case.bias)
        assert vectors[0].numel() == direct_size(order, HEADS[case.loss], *batch.head.T.shape)
        total = residuals.inner(order, vectors).sin().sum()
        gradient = torch.autograd.grad(total, features)[0] if total.requires_grad else torch.zeros_like(features)
        return vectors.detach(), gradient

    whole = value_and_gradient()
    monkeypatch.setattr("momentalign.closed_form._direct._ENTRIES", 1)
    for found, expected in zip(value_and_gradient(), whole, strict=True):
        assert_equal(found, expected)
