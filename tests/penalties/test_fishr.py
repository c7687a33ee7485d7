import pytest
import torch
from torch import Tensor
from torch.func import jacrev

from momentalign import Fishr
from tests.penalties.agreement import assert_agrees
from tests.references import CASES, Case, linear, make_batch, sample_losses


class Definition:
    """Variances of per-sample gradients from autograd, and their moving average s ← γ s + (1 − γ) v."""

    def __init__(self, loss: str, decay: float) -> None:
        self.loss, self.decay = loss, decay
        self.averages: dict[int, Tensor] = {}

    def __call__(self, features: Tensor, head: Tensor, targets: Tensor, domains: Tensor) -> Tensor:
        gradients = jacrev(lambda W: sample_losses(self.loss, linear(features, W), targets))(head).flatten(1)
        before = {label: self.decay * average.detach() for label, average in self.averages.items()}
        labels = domains.unique().tolist()
        now = {label: (1 - self.decay) * gradients[domains == label].var(0, unbiased=False) for label in labels}
        self.averages = before | {label: before.get(label, 0.0) + value for label, value in now.items()}
        values = torch.stack([self.averages[label] for label in labels]) / (1 - self.decay)
        return (values - values.mean(0)).square().mean()


@pytest.mark.parametrize("decay", [0.0, 0.95])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_value_and_gradients_over_steps(case: Case, decay: float) -> None:
    penalty = Fishr(3.0, momentum=decay, loss=case.loss, bias=case.bias)
    definition = Definition(case.loss, decay)
    all_domains, some = (3, -7, 2**40), (3, 2**40)
    for seed, domains in enumerate((some, all_domains, some, all_domains)):
        batch = make_batch(case.loss, n=11 + seed, domains=domains, balance=case.balance, bias=case.bias, seed=seed)
        assert_agrees(penalty, lambda *inputs: 3 * definition(*inputs), batch)


def test_default_momentum_is_the_published_one() -> None:
    assert Fishr().momentum == 0.95


@pytest.mark.parametrize("momentum", [1.0, 1, -0.5])
def test_bad_momentum(momentum: float) -> None:
    with pytest.raises(ValueError, match=rf"'momentum' should be .* but is {momentum}"):
        Fishr(momentum=momentum)
