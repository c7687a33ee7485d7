import pytest

from momentalign.closed_form import HEADS, pairwise_grams, sample_grams
from tests.references import LOSSES, assert_equal, make_batch


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_traces_are_inner_products(loss: str, bias: bool) -> None:
    batch = make_batch(loss, bias=bias)
    residuals = HEADS[loss](batch.logits, batch.targets)
    found = pairwise_grams([1, 2], residuals, batch.features, bias)
    expected = sample_grams([1, 2], residuals, batch.features, bias)
    assert sorted(found) == [1, 2]
    for order in (1, 2):
        assert_equal(found[order], expected[order], 1e-12)


@pytest.mark.parametrize("samples", [1, 4, 20])
def test_blocks_do_not_change_traces(samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = make_batch("cross_entropy", C=4)
    residuals = HEADS["cross_entropy"](batch.logits, batch.targets)
    expected = pairwise_grams([2], residuals, batch.features, True)[2]
    monkeypatch.setattr("momentalign.closed_form._pairwise._ENTRIES", samples * 4**2)
    assert_equal(pairwise_grams([2], residuals, batch.features, True)[2], expected, 1e-14)
