"""The base class of algorithms, with the network, the batch and the optimizers that a step works with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from momentalign._validation import check_choice, check_count

Backward = Callable[[Tensor], None]
Optimizers = Mapping[str, Optimizer]

_OPTIMIZERS: dict[str, type[Adam]] = {"adam": Adam, "adamw": AdamW}


@dataclass(frozen=True)
class Batch:
    """Rows of one training step: a mini-batch of each training domain, domain after domain, all of one size.

    Attributes:
        inputs: Input of the encoder, n rows.
        targets: Class indices, shape (n,).
        domains: 0 … K − 1 in blocks of n/K rows, shape (n,).
    """

    inputs: Tensor
    targets: Tensor
    domains: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def per_domain(self, num_domains: int | None = None) -> list[Batch]:
        """Split into K batches of n/K rows; without `num_domains` K is read back from the device."""
        number = int(self.domains[-1]) + 1 if num_domains is None else num_domains
        rows, rest = divmod(len(self), number)
        blocks = torch.arange(number).repeat_interleave(rows)
        # Values are checked on CPU only: elsewhere this would wait for the device at every step.
        if rest or not rows or (self.domains.device.type == "cpu" and not torch.equal(self.domains, blocks)):
            raise ValueError(
                f"'domains' should be 0 … {number - 1} in blocks of one size, but a batch of {len(self)} rows is not."
            )
        pieces = zip(*(tensor.split(rows) for tensor in (self.inputs, self.targets, self.domains)), strict=True)
        return [Batch(*piece) for piece in pieces]


class Network(nn.Module):
    """An encoder, dropout and a linear head with bias.

    Args:
        encoder: From inputs to features, shape (n, num_features).
        num_features: Width of the features.
        num_classes: Number of logits.
        dropout: Dropout rate of the features before the head.

    Example:
        >>> network = Network(nn.Flatten(), num_features=6, num_classes=3)
        >>> features, logits = network(torch.zeros(5, 2, 3))
        >>> features.shape, logits.shape
        (torch.Size([5, 6]), torch.Size([5, 3]))
    """

    def __init__(self, encoder: nn.Module, num_features: int, num_classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(num_features, num_classes)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Features after dropout, shape (n, num_features), and logits, shape (n, C), in one pass."""
        features: Tensor = self.dropout(self.encoder(inputs))
        return features, self.head(features)


class Algorithm(nn.Module, ABC):
    """How one step changes a network.

    A loop makes the optimizers once, calls :meth:`update` with a balanced batch at every step, and before the step
    `reset_step` calls :func:`reset_optimizer` on each of them. All state is in parameters and buffers: `state_dict()`
    and the optimizers' are the whole checkpoint. Of the hyper-parameters an algorithm uses its own and `lr`,
    `weight_decay`, `optimizer` and `clip`; `batch_size`, `dropout` and `schedule` are the loop's.

    A subclass implements :meth:`update`; `label` and `term_labels` are what sweeps and reports show. Its
    hyper-parameters are declared as a :class:`DomainPenalty`'s are.

    Args:
        network: The network to train. A loop may replace it by a wrapped one (`algorithm.network = wrapped`).
        num_domains: Number of training domains, K.
        hparams: A value for each shared hyper-parameter and each of its own.
    """

    label: str = ""
    """Name of an algorithm of your own in tables and charts; without it the class's name."""

    term_labels: ClassVar[Mapping[str, str]] = {}
    """Titles in a report of what :meth:`update` logs, by name."""

    capturable: bool = False
    """Whether a step can be captured in a CUDA graph: no value is read back, nothing depends on the step's number."""

    distributed: bool = False
    """Whether several ranks, each with its share of every domain's mini-batch, give the step of one."""

    def __init__(self, network: Network, num_domains: int, hparams: Mapping[str, Any]) -> None:
        super().__init__()
        self.network: nn.Module = network
        self.num_domains = check_count("num_domains", num_domains, 1)
        self.hparams = dict(hparams)

    @property
    def reset_step(self) -> int | None:
        """Step before which the optimizers' state is reset; None for never."""
        return None

    def optimizers(self) -> dict[str, Optimizer]:
        """Make new optimizers by name, as :meth:`update` expects them; here one, `"network"`, for all parameters."""
        return {"network": self._make_optimizer(self.parameters())}

    @abstractmethod
    def update(self, batch: Batch, optimizers: Optimizers, backward: Backward) -> dict[str, Tensor]:
        """Do one training step.

        Args:
            batch: A mini-batch of each training domain.
            optimizers: Those of :meth:`optimizers`, possibly wrapped.
            backward: Back-propagates from a scalar, as the loop's precision and devices need it. Algorithms that
                need single gradients (IGA, AND-Mask, DANN's gradient penalty) take them with `torch.autograd.grad`.

        Returns:
            Scalars to log, detached: `"loss"`, what was minimised, then its parts by name, unweighted. Over
            several ranks their mean is the number of one rank. Reading one waits for the device.
        """

    def _make_optimizer(self, parameters: Iterable[nn.Parameter], **options: Any) -> Optimizer:
        """Make an optimizer with one kernel for all parameters, which on CUDA can be captured in a graph."""
        parameters = list(parameters)
        devices = {parameter.device.type for parameter in parameters}
        chosen = {
            "lr": self.hparams["lr"],
            "weight_decay": self.hparams["weight_decay"],
            "fused": devices <= {"cpu", "cuda"},
            "capturable": devices == {"cuda"},
        } | options
        return _OPTIMIZERS[check_choice("optimizer", self.hparams.get("optimizer", "adam"), _OPTIMIZERS)](
            parameters, **chosen
        )

    def descend(self, loss: Tensor, optimizer: Optimizer, backward: Backward, **parts: Tensor) -> dict[str, Tensor]:
        """Back-propagate and step, with the gradient clipped; returns the loss and its parts, detached."""
        optimizer.zero_grad()
        backward(loss)
        self._step(optimizer)
        return {name: value.detach() for name, value in {"loss": loss, **parts}.items()}

    def _step(self, optimizer: Optimizer) -> None:
        """Clip the present gradients and step."""
        if self.hparams.get("clip", 0.0) > 0:
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            torch.nn.utils.clip_grad_norm_(parameters, self.hparams["clip"])
        optimizer.step()


@torch.no_grad()
def reset_optimizer(optimizer: Optimizer) -> None:
    """Reset an optimizer's state, where annealing changes the loss; learning rate and other settings stay.

    Averages and step counts of Adam and AdamW are set to zero in place, as in a new optimizer, which keeps a captured
    graph valid. The state of any other optimizer is cleared.
    """
    if not isinstance(optimizer, Adam):
        optimizer.state.clear()
        return
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.zero_()
