import pytest
import torch

from momentalign.penalties import CMA
from momentalign.penalties._base import _weighted_total

WEIGHTS = (0.5, 3.0, 0.0)


def weighed(terms: int, initial: float, start: int) -> list[tuple[float, list[float], int]]:
    """Value, slopes and count of three calls, the second of which does not count."""
    step, found = torch.zeros((), dtype=torch.long), []
    for number in range(3):
        values = [torch.tensor(2.0 + k, requires_grad=True) for k in range(terms)]
        total = _weighted_total(values, WEIGHTS[:terms], initial=initial, start=start, step=step, counts=number != 1)
        found.append((total.item(), [grad.item() for grad in torch.autograd.grad(total, values)], step.item()))
    return found


@pytest.mark.parametrize("terms", [1, 2, 3, 4])
@pytest.mark.parametrize("start", [0, 1, 2, 9])
@pytest.mark.parametrize("initial", [0.0, 1.0])
def test_weights_take_effect_at_their_step(terms: int, start: int, initial: float, monkeypatch) -> None:
    monkeypatch.setattr(f"{__name__}.WEIGHTS", (*WEIGHTS, 7.0))
    counts = 0
    for number, (total, slopes, step) in enumerate(weighed(terms, initial, start)):
        weights = WEIGHTS[:terms] if counts >= start else (initial,) * terms
        assert total == sum(weight * (2 + k) for k, weight in enumerate(weights))
        assert slopes == list(weights)
        counts += number != 1
        assert step == counts


class Forgetful(CMA):
    def compute_terms(self, batch, names, *, update):
        return {"gradient": batch.features.sum(), "other": batch.features.sum()}


def test_a_penalty_that_forgets_a_term_is_told() -> None:
    inputs = torch.zeros(2, 3), torch.zeros(2, 2), torch.tensor([0, 1]), torch.tensor([0, 1])
    with pytest.raises(ValueError, match=r"Forgetful should compute the terms 'gradient', 'hessian', .* 'other'\."):
        Forgetful()(*inputs)
