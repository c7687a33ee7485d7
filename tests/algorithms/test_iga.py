import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from momentalign.algorithms import IGA, Batch, Network
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
