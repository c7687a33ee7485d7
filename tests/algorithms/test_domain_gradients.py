import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from momentalign.algorithms import IGA, ANDMask, Batch, Network
from tests.algorithms.by_hand import TwoParameters, one_row_a_domain
from tests.algorithms.tiny import K, assert_descends, batch, build, descents, hparams


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


def after_one_step(tau: float, *rows: tuple[float, float]) -> tuple[list[float], float]:
    """Parameters after a step of plain descent from zero, and the share that was kept."""
    model = TwoParameters(0.0, 0.0)
    algorithm = ANDMask(model, len(rows), hparams("andmask", tau=tau))
    logged = algorithm.update(one_row_a_domain(*rows), descents(algorithm, 1.0), lambda loss: None)
    return model.w.tolist(), float(logged["kept"])


def test_two_parameters_by_hand() -> None:
    """Gradients −(1, 2)/2 and −(3, −4)/2: the first entries agree, mean −1; kept half, so −2."""
    assert after_one_step(1.0, (1.0, 2.0), (3.0, -4.0)) == ([2.0, 0.0], 0.5)


def test_all_kept_is_the_mean_gradient() -> None:
    assert after_one_step(1.0, (1.0, 2.0), (3.0, 4.0)) == ([1.0, 1.5], 1.0)
    assert after_one_step(0.0, (1.0, 2.0), (3.0, -4.0)) == ([1.0, -0.5], 1.0)


def test_nothing_kept_moves_nothing() -> None:
    assert after_one_step(1.0, (1.0, 2.0), (-3.0, -4.0)) == ([0.0, 0.0], 0.0)


@pytest.mark.parametrize(("tau", "kept"), [(0.33, 1.0), (0.34, 0.5), (1.0, 0.5)])
def test_two_of_three_agree_by_a_third(tau: float, kept: float) -> None:
    assert after_one_step(tau, (1.0, 1.0), (1.0, 1.0), (1.0, -1.0))[1] == kept


@pytest.mark.parametrize("domains", [3, 5, 7, 11])
def test_all_agree_also_where_their_number_has_no_exact_inverse(domains: int) -> None:
    assert after_one_step(1.0, *[(1.0, -1.0)] * domains)[1] == 1.0


def test_a_parameter_that_is_not_used_stays() -> None:
    model = TwoParameters(0.0, 0.0)
    model.unused = nn.Parameter(torch.ones(3, dtype=torch.float64))
    algorithm = ANDMask(model, 2, hparams("andmask"))
    algorithm.update(one_row_a_domain((1.0, 2.0), (3.0, 4.0)), descents(algorithm, 1.0), lambda loss: None)
    assert torch.equal(model.unused, torch.ones(3, dtype=torch.float64))
