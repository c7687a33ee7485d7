import numpy as np
import pytest
import torch

from momentalign.theory import DomainLosses
from tests.references import assert_equal
from tests.theory.problems import LOSSES, make_losses, random_head, reference_derivatives, reference_values


@pytest.mark.parametrize("loss", LOSSES)
def test_values_and_derivatives(loss: str) -> None:
    losses = make_losses(loss)
    head = random_head(losses)
    assert_equal(torch.from_numpy(losses.values(head)), reference_values(losses, head))
    gradients = reference_derivatives(1, losses, head) + losses.l2 * head.flatten()
    assert_equal(losses.gradients(head).flatten(1), gradients)
    for order, norms in losses.derivative_norms(head, 2).items():
        derivatives = reference_derivatives(order, losses, head)
        assert_equal(torch.from_numpy(norms), torch.cdist(derivatives, derivatives))


def test_data_frames_and_tensors() -> None:
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(6, 2))
    y, domains = [0, 1, 0, 1, 0, 1], list("aaabbb")
    frame = pandas.DataFrame({"p": X[:, 0], "q": X[:, 1]})
    plain = DomainLosses(X, y, domains)
    series = DomainLosses(frame, pandas.Series(y), pandas.Series(domains, dtype="category"))
    tensors = DomainLosses(torch.from_numpy(X), torch.tensor(y), np.array(domains))
    head = random_head(plain)
    for other in (series, tensors):
        assert other.names == plain.names
        np.testing.assert_array_equal(other.values(head), plain.values(head))


def test_head_of_another_shape() -> None:
    with pytest.raises(ValueError, match=r"'head' .*\(3, 3\)"):
        make_losses().values(np.zeros((3, 2)))
