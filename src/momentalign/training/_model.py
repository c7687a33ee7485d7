"""From a configuration to an algorithm with its network."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from momentalign._seeds import seed_hash
from momentalign.algorithms import Algorithm, Network, find_algorithm
from momentalign.data import DomainDataset
from momentalign.encoders import Encoder, build_encoder
from momentalign.penalties import DomainPenalty
from momentalign.runs import RunConfig


def build_algorithm(config: RunConfig, data: DomainDataset, root: str | Path | None = None) -> Algorithm:
    """Build the algorithm of a run on the host, its first weights drawn from their own seed; `root`: data folder."""
    torch.manual_seed(seed_hash("initialisation", config.trial))
    split = data.training_split
    rows = [data.domains[name][split] for name in training_domains(config, data) if split in data.domains[name]]
    encoder = build_encoder(config.encoder, data, rows, root=root)
    encoder.preprocessing.augmentation = config.augment
    network = Network(encoder, encoder.num_features, data.num_classes, config.hparams["dropout"])
    number = 1 if config.pool else len(training_domains(config, data))
    algorithm = find_algorithm(config.algorithm).build(network, number, config.hparams)
    penalty = getattr(algorithm, "penalty", None)
    if isinstance(penalty, DomainPenalty):
        # The loop's batches are valid, and a run that diverges continues, as it does on a GPU.
        penalty.validate = False
    return algorithm


def parts_of(algorithm: Algorithm) -> tuple[Network, Encoder]:
    """The network of an algorithm, and its encoder."""
    network = algorithm.network
    assert isinstance(network, Network)
    return network, encoder_of(network)


def encoder_of(network: Network) -> Encoder:
    """The encoder of a network, with its preprocessing."""
    assert isinstance(network.encoder, Encoder)
    return network.encoder


def describe_network(network: Network, data: DomainDataset) -> dict[str, Any]:
    """Content of `model.json`: all that the weights need to become a network again."""
    encoder = encoder_of(network)
    return {
        "encoder": encoder.config(),
        "num_features": encoder.num_features,
        "classes": list(data.classes),
        "dataset": data.name,
    }


def describe_size(optimizers: Mapping[str, Optimizer]) -> str:
    """Number of trained parameters."""
    groups = [group["params"] for optimizer in optimizers.values() for group in optimizer.param_groups]
    return f"{sum(parameter.numel() for group in groups for parameter in group):,} parameters are trained."


def training_domains(config: RunConfig, data: DomainDataset) -> list[str]:
    """Names of the domains that are trained on, in the data set's order."""
    return [name for name in data.names if name not in config.test_domains]


def warn_unusual(config: RunConfig, data: DomainDataset) -> None:
    """Warn about a single training domain, and about domains smaller than a mini-batch."""
    split, batch_size = data.training_split, config.hparams["batch_size"]
    rows = {name: len(data.domains[name].get(split, ())) for name in training_domains(config, data)}
    if len(rows) == 1 and config.algorithm != "erm":
        warnings.warn(
            f"There is one domain to train on, {next(iter(rows))}: '{config.algorithm}' may be no more than plain "
            "training, with nothing to compare it to.",
            stacklevel=2,
        )
    small = [f"{name} ({number})" for name, number in rows.items() if 0 < number < batch_size]
    if small and not config.pool:
        warnings.warn(
            f"A batch of {batch_size} is larger than the rows to train on of {', '.join(small)}: rows repeat.",
            stacklevel=2,
        )


def check_ranks(algorithm: Algorithm, name: str, ranks: int) -> None:
    """Raise ValueError where several ranks would not give the same step as one."""
    if ranks > 1 and not algorithm.distributed:
        raise ValueError(f"'{name}' works on one device only. Use --devices 1.")
    if ranks > 1 and any(isinstance(module, _BatchNorm) and module.training for module in algorithm.modules()):
        raise ValueError("Batch normalisation that is trained sees the rows of one device only. Use --devices 1.")


def device_name(device: torch.device) -> str:
    """Name of a device in `run.json`."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
