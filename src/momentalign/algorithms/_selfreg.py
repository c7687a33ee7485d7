"""Self-supervised contrastive regularisation: rows of one class should look alike, whatever their domain."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from momentalign.algorithms._base import Algorithm, Backward, Batch, Network, Optimizers

_FEATURE_WEIGHT = 0.3


class SelfReg(Algorithm):
    r"""Pulls each row's features and logits towards those of other rows of its class, and mixtures of two of them.

    With a permutation :math:`\pi` within the classes of the batch, a second one :math:`\pi'`, and
    :math:`\lambda \sim \mathrm{Beta}(\frac12, \frac12)`, partners are :math:`z_{\pi(i)}` and
    :math:`\lambda z_{\pi(i)} + (1-\lambda) z_{\pi'(i)}`. The mean squared distances of the logits, and 0.3 times those
    of the features from their partners' projections, weigh λ and 1 − λ, all of it times min(cross-entropy, 1),
    detached. The projection is trained with the network. There are no hyper-parameters beside the shared ones.
    """

    def __init__(self, network: Network, num_domains: int, hparams: Mapping[str, Any]) -> None:
        super().__init__(network, num_domains, hparams)
        width = network.head.in_features
        self.projection = nn.Sequential(
            *(nn.Linear(width, 2 * width), nn.BatchNorm1d(2 * width), nn.ReLU()),
            *(nn.Linear(2 * width, 2 * width), nn.BatchNorm1d(2 * width), nn.ReLU()),
            *(nn.Linear(2 * width, width), nn.BatchNorm1d(width)),
        )

    def update(self, batch: Batch, optimizers: Optimizers, backward: Backward) -> dict[str, Tensor]:
        """Do one step; logs the mean squared `"logit_distance"` and `"feature_distance"`, weighted by λ."""
        features, logits = self.network(batch.inputs)
        projected = self.projection(features)
        first, second = within_classes(batch.targets), within_classes(batch.targets)
        # Beta(1/2, 1/2) is the arcsine distribution; drawn on the device, nothing has to be copied.
        mix = (math.pi / 2 * torch.rand((), device=logits.device, dtype=logits.dtype)).sin().square()
        of_logits = _distance(logits, logits[first], logits[second], mix)
        of_features = _distance(features, projected[first], projected[second], mix)
        classes = cross_entropy(logits, batch.targets)
        loss = classes + classes.detach().clamp(max=1.0) * (of_logits + _FEATURE_WEIGHT * of_features)
        parts = {"cross_entropy": classes, "logit_distance": of_logits, "feature_distance": of_features}
        return self.descend(loss, optimizers["network"], backward, **parts)


def within_classes(targets: Tensor) -> Tensor:
    """Random permutation of the rows within each class, shape (n,)."""
    shuffled = torch.randperm(len(targets), device=targets.device)
    # The k-th row of a class, in the rows' order, gets the k-th of that class in the shuffled order.
    rows, partners = targets.argsort(stable=True), shuffled[targets[shuffled].argsort(stable=True)]
    return torch.empty_like(rows).scatter(0, rows, partners)


def _distance(values: Tensor, partners: Tensor, others: Tensor, mix: Tensor) -> Tensor:
    mixed = mix * partners + (1 - mix) * others
    return mix * mse_loss(values, partners) + (1 - mix) * mse_loss(values, mixed)
