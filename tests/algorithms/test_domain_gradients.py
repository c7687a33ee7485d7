"""Fish, IGA and AND-Mask, where two parameters will do with pencil and paper."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from momentalign.algorithms import IGA, ANDMask, Batch, Fish, Network
from tests.algorithms.tiny import K, assert_descends, batch, build, descents, hparams
from tests.references import assert_equal


class TwoParameters(nn.Module):
    """Logits (0, w·x) with w in R²: the loss of a row is log(1 + exp(∓ w·x))."""

    def __init__(self, first: float, second: float) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([first, second], dtype=torch.float64))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        logit = inputs @ self.w
        return inputs, torch.stack([torch.zeros_like(logit), logit], 1)


def one_row_a_domain(*rows: tuple[float, float]) -> Batch:
    """A row of class 1 from each domain; at w = 0 its gradient is −x/2."""
    inputs = torch.tensor(rows, dtype=torch.float64)
    return Batch(inputs, torch.ones(len(rows), dtype=torch.long), torch.arange(len(rows)))


def test_fish_of_two_parameters_by_hand() -> None:
    """Adam's arithmetic domain by domain, its averages going on into the next step."""
    lr, meta, beta1, beta2, eps = 0.1, 0.5, 0.9, 0.999, 1e-8
    rows = ((1.0, 2.0), (-3.0, 1.0))
    model = TwoParameters(0.0, 0.0)
    algorithm = Fish(model, 2, hparams("fish", lr=lr, meta_lr=meta))
    optimizers = algorithm.optimizers()

    w, m, v, count = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0], 0
    for _ in range(3):
        algorithm.update(one_row_a_domain(*rows), optimizers, lambda loss: loss.backward())
        inner = list(w)
        for x in rows:
            count += 1
            p = 1 / (1 + math.exp(-(inner[0] * x[0] + inner[1] * x[1])))
            for k in range(2):
                g = (p - 1) * x[k]
                m[k] = beta1 * m[k] + (1 - beta1) * g
                v[k] = beta2 * v[k] + (1 - beta2) * g * g
                inner[k] -= lr * (m[k] / (1 - beta1**count)) / (math.sqrt(v[k] / (1 - beta2**count)) + eps)
        w = [a + meta * (b - a) for a, b in zip(w, inner, strict=True)]
        assert_equal(model.w, torch.tensor(w, dtype=torch.float64), 1e-12)


def test_fish_moves_running_averages_by_the_same_share() -> None:
    norm = nn.BatchNorm1d(2, momentum=1.0, dtype=torch.float64)  # keeps the last batch's statistics
    model = Network(norm, 2, 2).double()
    algorithm = Fish(model, 2, hparams("fish", meta_lr=0.25))
    inputs = torch.tensor([[0.0, 0.0], [2.0, 4.0], [4.0, 8.0], [8.0, 16.0]], dtype=torch.float64)
    rows = Batch(inputs, torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 1, 1]))
    algorithm.update(rows, algorithm.optimizers(), lambda loss: loss.backward())
    assert_equal(norm.running_mean, torch.tensor([1.5, 3.0], dtype=torch.float64))  # a quarter of (6, 12)
    assert norm.num_batches_tracked == 2


def test_distance_of_the_gradients_of_all_parameters() -> None:
    def loss(twin: nn.Module, rows: Batch, step: int) -> Tensor:
        losses, gradients = [], []
        for part in rows.per_domain(K):
            losses.append(cross_entropy(twin(part.inputs)[1], part.targets))
            parts = torch.autograd.grad(losses[-1], list(twin.parameters()), create_graph=True)
            gradients.append(torch.cat([part.flatten() for part in parts]))
        mean = sum(gradients) / K
        return sum(losses) / K + 2.5 * sum((gradient - mean).square().sum() for gradient in gradients)

    assert_descends(build("iga", gradient_weight=2.5), loss, lr=0.01)


class Attention(nn.Module):
    """Two tokens of two numbers each that look at each other."""

    def forward(self, inputs: Tensor) -> Tensor:
        tokens = inputs.reshape(len(inputs), 1, 2, 2)
        return nn.functional.scaled_dot_product_attention(tokens, tokens, tokens).flatten(1)


def test_attention_can_be_differentiated_twice() -> None:
    """Fused attention cannot, and is what PyTorch takes by itself."""
    algorithm = IGA(
        Network(nn.Sequential(nn.Linear(4, 4), Attention()), 4, 3).double(), K, hparams("iga", gradient_weight=1.0)
    )
    before = [parameter.detach().clone() for parameter in algorithm.parameters()]
    algorithm.update(batch(), descents(algorithm), lambda loss: loss.backward())
    assert all((a != b).any() for a, b in zip(algorithm.parameters(), before, strict=True))


@pytest.mark.parametrize(
    ("tau", "rows", "moved", "kept"),
    [
        # Gradients −(1, 2)/2 and −(3, −4)/2: the first entries agree, mean −1; kept half, so −2.
        (1.0, [(1.0, 2.0), (3.0, -4.0)], [2.0, 0.0], 0.5),
        (1.0, [(1.0, 2.0), (3.0, 4.0)], [1.0, 1.5], 1.0),
        (0.0, [(1.0, 2.0), (3.0, -4.0)], [1.0, -0.5], 1.0),
        (1.0, [(1.0, 2.0), (-3.0, -4.0)], [0.0, 0.0], 0.0),
        *(
            (tau, [(1.0, 1.0), (1.0, 1.0), (1.0, -1.0)], None, kept)
            for tau, kept in ((0.33, 1.0), (0.34, 0.5), (1, 0.5))
        ),
        # Numbers of domains without an exact inverse.
        *((1.0, [(1.0, -1.0)] * domains, [0.5, -0.5], 1.0) for domains in (3, 5, 7, 11)),
    ],
)
def test_and_mask_by_hand(tau: float, rows: list[tuple[float, float]], moved: list[float] | None, kept: float) -> None:
    model = TwoParameters(0.0, 0.0)
    model.unused = nn.Parameter(torch.ones(3, dtype=torch.float64))
    algorithm = ANDMask(model, len(rows), hparams("andmask", tau=tau))
    logged = algorithm.update(one_row_a_domain(*rows), descents(algorithm, 1.0), lambda loss: None)
    assert moved is None or model.w.tolist() == pytest.approx(moved)
    assert torch.equal(model.unused, torch.ones(3, dtype=torch.float64))
    # Of five parameters; those that are not used have gradients of zero, of which no sign agrees.
    assert float(logged["kept"]) == pytest.approx((2 * kept + 3 * (tau == 0)) / 5)
