import pytest
import torch
from torch import Tensor

from momentalign import IRM
from tests.penalties.agreement import assert_agrees
from tests.references import CASES, Case, assert_equal, dense_derivatives, linear, make_batch, sample_losses


@pytest.mark.parametrize("case", CASES, ids=str)
def test_head_is_the_mean_squared_norm_of_the_gradients(case: Case) -> None:
    assert_agrees(
        IRM(3.0, loss=case.loss, bias=case.bias),
        lambda *inputs: 3 * dense_derivatives(1, case.loss, *inputs).square().sum(1).mean(),
        make_batch(case.loss, balance=case.balance, bias=case.bias),
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_scale_is_the_product_of_two_halves(case: Case) -> None:
    def reference(features: Tensor, head: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
        logits = linear(features, head)
        products = []
        for label in domains.unique():
            rows = (domains == label).nonzero()[:, 0]
            scale = torch.ones((), dtype=torch.float64, requires_grad=True)
            halves = [
                torch.autograd.grad(
                    sample_losses(case.loss, scale * logits[half], targets[half]).mean(), scale, create_graph=True
                )[0]
                for half in (rows[::2], rows[1::2])
            ]
            products.append(halves[0] * halves[1])
        return torch.stack(products).mean()

    batch = make_batch(case.loss, n=14, balance=case.balance, bias=case.bias)
    assert_agrees(IRM(version="scale", loss=case.loss, bias=case.bias), reference, batch)


def test_scale_counts_rows_within_their_domain() -> None:
    # Shuffling domains among each other keeps every domain's own order of rows.
    features, logits, targets, domains = make_batch("cross_entropy").inputs
    order = domains.argsort(stable=True)
    sorted_rows = features[order], logits[order], targets[order], domains[order]
    penalty = IRM(version="scale")
    assert_equal(penalty(*sorted_rows), penalty(features, logits, targets, domains))


def test_scale_of_a_single_row_is_zero() -> None:
    features, logits, targets, _ = (tensor[:3] for tensor in make_batch("cross_entropy").inputs)
    assert IRM(version="scale")(features, logits, targets, torch.tensor([4, 5, 6])).item() == 0


def test_unknown_version() -> None:
    with pytest.raises(ValueError, match=r"'version' should be one of 'head', 'scale', but is 'scales'\. Did you mean"):
        IRM(version="scales")
