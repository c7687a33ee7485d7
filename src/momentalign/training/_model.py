"""From a configuration to an algorithm with its network, and what is written down of the network."""

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch.optim import Optimizer

from momentalign._seeds import seed_hash
from momentalign.algorithms import Algorithm, Network, find_algorithm
from momentalign.data import DomainDataset
from momentalign.encoders import Encoder, build_encoder
from momentalign.penalties import DomainPenalty
from momentalign.runs import RunConfig
from momentalign.training._data import training_split


def build_algorithm(config: RunConfig, data: DomainDataset) -> Algorithm:
    """Build the algorithm of a run, its first weights drawn from their own seed.

    Args:
        config: What is run.
        data: Its data set.

    Returns:
        The algorithm, on the host.
    """
    torch.manual_seed(seed_hash("initialisation", config.trial))
    split = training_split(data)
    rows = [data.domains[name][split] for name in training_domains(config, data) if split in data.domains[name]]
    encoder = build_encoder(config.encoder, data, rows)
    network = Network(encoder, encoder.num_features, data.num_classes, config.hparams["dropout"])
    number = 1 if config.pool else len(training_domains(config, data))
    algorithm = find_algorithm(config.algorithm).build(network, number, config.hparams)
    penalty = getattr(algorithm, "penalty", None)
    if isinstance(penalty, DomainPenalty):
        # The loop's batches are what they should be, and a run that diverges goes on, as it does on a GPU.
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


def describe(network: Network, data: DomainDataset) -> dict[str, Any]:
    """What `model.json` says: all that the weights need to become a network again.

    Args:
        network: The network.
        data: What it was trained on.

    Returns:
        Values that JSON can hold.
    """
    encoder = encoder_of(network)
    return {
        "encoder": encoder.config(),
        "preprocessing": encoder.preprocessing.config(),
        "num_features": encoder.num_features,
        "classes": list(data.classes),
        "dataset": data.name,
    }


def size_of(algorithm: Algorithm, optimizers: Mapping[str, Optimizer]) -> list[str]:
    """What to say of an algorithm's size: numbers that are trained, and a checkpoint's share of the disk.

    Args:
        algorithm: The algorithm.
        optimizers: Its optimizers.

    Returns:
        A sentence.
    """
    trained = sum(p.numel() for o in optimizers.values() for group in o.param_groups for p in group["params"])
    state = sum(tensor.numel() * tensor.element_size() for tensor in algorithm.state_dict().values())
    megabytes = (state + 8 * trained) / 1e6  # Adam keeps two numbers for each
    return [f"{trained:,} numbers are trained; a checkpoint takes about {max(megabytes, 0.1):,.1f} MB."]


def training_domains(config: RunConfig, data: DomainDataset) -> list[str]:
    """Names of the domains that are trained on, in the data set's order."""
    return [name for name in data.names if name not in config.test_domains]


def warn_of_oddities(config: RunConfig, data: DomainDataset) -> None:
    """Warn of what is legal but may be a mistake: a single domain, domains smaller than a mini-batch.

    Args:
        config: What is run.
        data: Its data set.
    """
    split, batch_size = training_split(data), config.hparams["batch_size"]
    rows = {name: len(data.domains[name].get(split, ())) for name in training_domains(config, data)}
    if len(rows) == 1 and config.algorithm != "erm":
        warnings.warn(
            f"There is one domain to train on, {next(iter(rows))}: with nothing to compare it to, '{config.algorithm}' "
            "may be no more than plain training.",
            stacklevel=2,
        )
    small = [f"{name} ({number})" for name, number in rows.items() if 0 < number < batch_size]
    if small and not config.pool:
        warnings.warn(
            f"A batch of {batch_size} is larger than the rows to train on of {', '.join(small)}: rows repeat.",
            stacklevel=2,
        )
