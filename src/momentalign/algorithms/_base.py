"""What all algorithms share: a network, hyper-parameters, optimizers, and one step as one call."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from momentalign._validation import check_count
from momentalign.algorithms._batch import Batch
from momentalign.algorithms._network import Network
from momentalign.algorithms._optimizers import make_optimizer
from momentalign.algorithms._search import SearchSpace

Backward = Callable[[Tensor], None]


class Algorithm(nn.Module, ABC):
    """How one step changes a network.

    A loop makes the optimizers once, calls :meth:`update` with a balanced batch at every step, and at the step
    `reset_step`, before the call, :func:`reset_optimizer` on each of them. Everything that an algorithm remembers
    is a parameter or a buffer: `state_dict()` and the optimizers' are the whole state. Of the hyper-parameters an
    algorithm uses its own and `lr`, `weight_decay`, `optimizer` and `clip`; `batch_size`, `dropout` and
    `schedule` are the loop's.

    Args:
        network: What is trained. A loop may put a wrapped one in its place (`algorithm.network = wrapped`).
        num_domains: Number of training domains, K.
        hparams: Hyper-parameters, all that `search_space` and :func:`shared_space` name.
    """

    capturable: bool = False
    """Whether a step may be captured in a CUDA graph: no value is read back, nothing depends on the step's number."""

    distributed: bool = False
    """Whether several ranks, each with its share of every domain's mini-batch, give the step of one."""

    def __init__(self, network: Network, num_domains: int, hparams: Mapping[str, Any]) -> None:
        super().__init__()
        self.network: nn.Module = network
        self.num_domains = check_count("num_domains", num_domains, 1)
        self.hparams = dict(hparams)

    @property
    def reset_step(self) -> int | None:
        """Step before which the optimizers' state is to be made new; None for never."""
        return None

    def optimizers(self) -> dict[str, Optimizer]:
        """Make new optimizers.

        Returns:
            By name, as :meth:`update` expects them; here one, `"network"`, for all parameters.
        """
        return {"network": self._make_optimizer(self.parameters())}

    @abstractmethod
    def update(self, batch: Batch, optimizers: Mapping[str, Optimizer], backward: Backward) -> dict[str, Tensor]:
        """Do one training step.

        Args:
            batch: A mini-batch of each training domain.
            optimizers: As :meth:`optimizers` made them, or wrapped.
            backward: Back-propagates from a scalar, as the loop's precision and devices need it. Algorithms that
                need single gradients (IGA, AND-Mask, a discriminator's slope) take them with `torch.autograd.grad`.

        Returns:
            Scalars to log, detached: `"loss"`, what was minimised, then its parts by name, unweighted. Over
            several ranks their mean is the number of one rank. Reading one waits for the device.
        """

    @classmethod
    def search_space(cls, recipe: str, steps: int) -> SearchSpace:
        """Hyper-parameters of this algorithm's own, beside the shared ones.

        Args:
            recipe: `"mnist"`, `"image"`, `"text"` or `"table"`.
            steps: Length of the run, which annealing is scaled to.

        Returns:
            Default and draw of each, by name.
        """
        return {}

    def _make_optimizer(self, parameters: Iterable[nn.Parameter], **options: Any) -> Optimizer:
        chosen = {"lr": self.hparams["lr"], "weight_decay": self.hparams["weight_decay"]} | options
        return make_optimizer(self.hparams.get("optimizer", "adam"), parameters, **chosen)

    def _descend(self, loss: Tensor, optimizer: Optimizer, backward: Backward) -> None:
        """Back-propagate and step."""
        optimizer.zero_grad()
        backward(loss)
        self._step(optimizer)

    def _step(self, optimizer: Optimizer) -> None:
        """Step with the gradients that are there, clipped."""
        if self.hparams.get("clip", 0.0) > 0:
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            torch.nn.utils.clip_grad_norm_(parameters, self.hparams["clip"])
        optimizer.step()
