"""A whole training step: encoder forward, loss with penalty, backward, optimizer."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from momentalign.bench._baselines import HeadPenalty, backpropagated_hgp, dense_hessian
from momentalign.bench._measure import Call, Measurement, captured, measure_in_turns
from momentalign.bench._penalty import BatchSize, from_head
from momentalign.bench._results import BenchmarkRow
from momentalign.encoders import MNIST_CNN, HuggingFaceVision, ImagePreprocessing
from momentalign.penalties import CMA, CORAL, HGP, Fishr

MakeEncoder = Callable[[], tuple[nn.Module, tuple[int, ...], int]]
"""Returns an encoder, the shape of an input and the width of the features."""


def small_mlp() -> tuple[nn.Module, tuple[int, ...], int]:
    """Two hidden layers of 64 units, as for a table of 20 columns."""
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()), (20,), 64


def mnist_cnn(channels: int = 2) -> tuple[nn.Module, tuple[int, ...], int]:
    """The small convolutional network of the digit sets."""
    return MNIST_CNN(in_channels=channels), (channels, 28, 28), 128


def vit_small() -> tuple[nn.Module, tuple[int, ...], int]:
    """ViT-S/16 at 224 pixels, randomly initialised."""
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, intermediate_size=1536)
    return HuggingFaceVision(ViTModel(config, add_pooling_layer=False), ImagePreprocessing(224)), (3, 224, 224), 384


def step_rows(
    encoder: MakeEncoder, size: BatchSize, device: torch.device, budget: float, *, baselines: bool
) -> list[BenchmarkRow]:
    """Whole steps in float32, in units of ERM; memory is what a step takes beyond parameters and optimizer state."""
    penalties = _penalties(size, device, baselines)
    steps = {name: training_step(encoder, size, device, penalty) for name, penalty in penalties.items()}
    measured = measure_in_turns(steps, device, budget)
    return [BenchmarkRow.of("whole step", size, name, row, measured["ERM"]) for name, row in measured.items()]


def captured_step_rows(
    encoder: MakeEncoder, size: BatchSize, device: torch.device, budget: float
) -> list[BenchmarkRow]:
    """Whole steps in bfloat16, captured in a CUDA graph; memory belongs to the graph and is not listed."""
    penalties = _penalties(size, device, baselines=False)
    steps = {
        name: captured(training_step(encoder, size, device, penalty, half=True)) for name, penalty in penalties.items()
    }
    measured = measure_in_turns(steps, device, budget)
    unit = Measurement(measured["ERM"].seconds, 0)
    return [
        BenchmarkRow.of("whole step, bf16, captured", size, name, Measurement(row.seconds, 0), unit)
        for name, row in measured.items()
    ]


def training_step(
    encoder: MakeEncoder,
    size: BatchSize,
    device: torch.device,
    penalty: HeadPenalty | None,
    half: bool = False,
) -> Call:
    """A step on one random batch: Adam, with `half` in bfloat16 autocast."""
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


def _penalties(size: BatchSize, device: torch.device, baselines: bool) -> dict[str, HeadPenalty | None]:
    penalties: dict[str, HeadPenalty | None] = {
        "ERM": None,
        "CMA, gram": from_head(CMA(1.0, 0.1, route="gram", validate=False, num_domains=size.K), device),
        "CORAL": from_head(CORAL(validate=False), device),
        "Fishr": from_head(Fishr(validate=False, num_domains=size.K), device),
        "HGP": from_head(HGP(validate=False, num_domains=size.K), device),
        "ERM again": None,
    }
    if baselines:
        pairwise = CMA(1.0, 0.1, route="pairwise", validate=False, num_domains=size.K)
        penalties["CMA, pairwise traces"] = from_head(pairwise, device)
        penalties["HGP by double back-propagation"] = backpropagated_hgp
        penalties["dense Hessian per domain"] = dense_hessian
    return penalties
