"""A whole training step: encoder forward, loss with penalty, backward, optimizer."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from momentalign.bench._capture import captured
from momentalign.bench._measure import Function, Measurement, measure, peak_bytes
from momentalign.bench._penalty import Size, ours
from momentalign.bench._rivals import Rival, backpropagated_hgp, dense_hessian
from momentalign.bench._rows import Row
from momentalign.encoders import MNIST_CNN
from momentalign.penalties import CMA, CORAL, HGP, Fishr

Encoder = Callable[[], tuple[nn.Module, tuple[int, ...], int]]
"""Makes an encoder and says the shape of an image and the width of the features."""


def mnist_cnn() -> tuple[nn.Module, tuple[int, ...], int]:
    """The small convolutional network of the digit sets, two colour channels."""
    return MNIST_CNN(in_channels=2), (2, 28, 28), 128


def vit_small() -> tuple[nn.Module, tuple[int, ...], int]:
    """ViT-S/16 at 224 pixels, randomly initialised."""
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, intermediate_size=1536)
    return _FirstToken(ViTModel(config, add_pooling_layer=False)), (3, 224, 224), 384


def step_rows(encoder: Encoder, size: Size, device: torch.device, budget: float, *, rivals: bool) -> list[Row]:
    """Measure whole steps in float32, in units of plain training.

    Args:
        encoder: What comes before the head; `size.d` is its width.
        size: The batch.
        device: Where to run.
        budget: Seconds for each.
        rivals: Whether to run the double back-propagation and the dense Hessians as well.

    Returns:
        A row each. Memory is what a step takes beyond parameters and optimizer state.
    """
    penalties = _penalties(size, device, rivals)
    peaks = {name: peak_bytes(_step(encoder, size, device, penalty), device) for name, penalty in penalties.items()}
    steps = {name: _step(encoder, size, device, penalty) for name, penalty in penalties.items()}
    found = measure(steps, device, budget)
    rows = {name: Measurement(found[name].seconds, peaks[name]) for name in steps}
    return [Row.of("whole step", size, name, row, rows["ERM"]) for name, row in rows.items()]


def captured_step_rows(encoder: Encoder, size: Size, device: torch.device, budget: float) -> list[Row]:
    """The same in bfloat16, the step captured in a CUDA graph; memory lies in the graph and is not listed."""
    penalties = _penalties(size, device, rivals=False)
    steps = {name: captured(_step(encoder, size, device, penalty, half=True)) for name, penalty in penalties.items()}
    found = measure(steps, device, budget)
    unit = Measurement(found["ERM"].seconds, 0)
    return [
        Row.of("whole step, bf16, captured", size, name, Measurement(row.seconds, 0), unit)
        for name, row in found.items()
    ]


def _penalties(size: Size, device: torch.device, rivals: bool) -> dict[str, Rival | None]:
    penalties: dict[str, Rival | None] = {
        "ERM": None,
        "CMA, gram": ours(CMA(1.0, 0.1, route="gram", validate=False, num_domains=size.K), device),
        "CORAL": ours(CORAL(validate=False), device),
        "Fishr": ours(Fishr(validate=False, num_domains=size.K), device),
        "HGP": ours(HGP(validate=False), device),
        "ERM again": None,
    }
    if rivals:
        penalties["CMA, pairwise traces"] = ours(
            CMA(1.0, 0.1, route="pairwise", validate=False, num_domains=size.K), device
        )
        penalties["HGP by double back-propagation"] = backpropagated_hgp
        penalties["dense Hessian per domain"] = dense_hessian
    return penalties


def _step(encoder: Encoder, size: Size, device: torch.device, penalty: Rival | None, half: bool = False) -> Function:
    torch.manual_seed(0)
    body, shape, width = encoder()
    body, head = body.to(device).train(), nn.Linear(width, size.C).to(device)
    images = torch.randn(size.n, *shape, device=device)
    targets = torch.randint(size.C, (size.n,), device=device)
    domains = torch.arange(size.n, device=device) % size.K
    parameters = [*body.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-5, fused=True, capturable=device.type == "cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=half, cache_enabled=False):
            features: Tensor = body(images)
            loss = cross_entropy(linear(features, head.weight, head.bias), targets)
            if penalty is not None:
                loss = loss + penalty(features, head.weight, head.bias, targets, domains)
        loss.backward()
        optimizer.step()

    return step


class _FirstToken(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        tokens: Tensor = self.model(images).last_hidden_state
        return tokens[:, 0]
