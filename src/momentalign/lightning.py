"""A penalty for a LightningModule whose `training_step` stays as it is."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from momentalign._extras import require_lightning
from momentalign.penalties import DomainPenalty

__all__ = ["AlignmentCallback"]

_Callback: Any = require_lightning("pytorch", "AlignmentCallback needs").Callback

BatchPart = int | str | Callable[[Any], Tensor]
"""Index or key of a part of a batch, or a function that takes the batch and returns the part."""


class AlignmentCallback(_Callback):  # type: ignore[misc]  # Lightning is untyped for mypy
    """Adds a penalty to the loss that `training_step` returns.

    Input and output of the head are recorded while `training_step` runs, so the head has to be called once in a step,
    with gradients; the penalty is computed from them and added before Lightning divides for accumulated batches and
    scales for mixed precision. The penalty and its unweighted terms are logged as `penalty` and `penalty/TERM`. The
    penalty's state (count of steps, averages) is saved in Lightning's checkpoints. `training_step` is restored when
    training ends.

    Needs automatic optimization. On several devices the penalty gathers the rows of all of them.

    Args:
        penalty: For instance `CMA(1, 1, scaling="relative")`.
        head: Name of the linear head in the module: `"head"`, `"model.classifier"`.
        targets: Index or key of the targets in a batch, or a function of the batch.
        domains: The same for the domains, integers of shape (n,).
        log: Whether to log the penalty and its terms.
    """

    def __init__(
        self,
        penalty: DomainPenalty,
        *,
        head: str = "head",
        targets: BatchPart = 1,
        domains: BatchPart = 2,
        log: bool = True,
    ) -> None:
        super().__init__()
        if not isinstance(penalty, DomainPenalty):
            raise TypeError(f"'penalty' should be a penalty such as CMA(), but is {penalty!r}.")
        if any(True for _ in penalty.parameters()):
            name = type(penalty).__name__
            raise ValueError(f"{name} has parameters to train: make it a submodule of the LightningModule instead.")
        self.penalty, self.head, self.targets, self.domains, self.log = penalty, head, targets, domains, log
        self._calls: list[tuple[Tensor, Tensor]] | None = None
        self._hook: Any = None

    @property
    def state_key(self) -> str:
        """Key of the penalty's state in a checkpoint."""
        return f"AlignmentCallback({type(self.penalty).__name__}, {self.head})"

    def state_dict(self) -> dict[str, Any]:
        """State of the penalty, for Lightning's checkpoints."""
        return dict(self.penalty.state_dict())

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.penalty.load_state_dict(state_dict)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Raise ValueError if the module optimizes manually, or has no such head."""
        if not pl_module.automatic_optimization:
            raise ValueError(
                f"AlignmentCallback needs automatic optimization, but {type(pl_module).__name__} optimizes by itself. "
                "Call the penalty in training_step."
            )
        head = dict(pl_module.named_modules()).get(self.head)
        if not isinstance(head, nn.Linear):
            heads = [name for name, module in pl_module.named_modules() if isinstance(module, nn.Linear)]
            found = "is not there" if head is None else f"is a {type(head).__name__}"
            raise ValueError(
                f"'head' should name a linear layer of {type(pl_module).__name__}, but {self.head!r} {found}. Linear "
                f"layers: {', '.join(heads) or 'none'}."
            )
        if not self.penalty.features_only and self.penalty.bias != (head.bias is not None):
            has = "a" if head.bias is not None else "no"
            raise ValueError(f"{self.head!r} has {has} bias: give the penalty bias={head.bias is not None}.")

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Wrap `training_step`."""
        self.penalty.to(pl_module.device).train()
        self._hook = pl_module.get_submodule(self.head).register_forward_hook(self._record)
        step = pl_module.training_step
        own = vars(pl_module).get("training_step")

        def aligned_step(*arguments: Any, **options: Any) -> Any:
            outer, self._calls = self._calls, []
            try:
                output = step(*arguments, **options)
                batch = arguments[0] if arguments else options["batch"]
                return self._add(pl_module, output, batch)
            finally:
                self._calls = outer

        aligned_step.original = getattr(own, "original", own)  # type: ignore[attr-defined]
        pl_module.training_step = aligned_step

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Restore `training_step`."""
        if self._hook is None:
            return
        self._hook.remove()
        self._hook = None
        own = vars(pl_module).get("training_step")
        if hasattr(own, "original"):  # else another callback of this kind has done it
            del pl_module.training_step
            if own.original is not None:
                pl_module.training_step = own.original

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Restore `training_step`."""
        self.on_train_end(trainer, pl_module)

    def _record(self, head: nn.Module, inputs: tuple[Tensor, ...], logits: Tensor) -> None:
        if self._calls is not None and torch.is_grad_enabled():
            self._calls.append((inputs[0], logits))

    def _add(self, module: Any, output: Any, batch: Any) -> Any:
        """Add the penalty to the output of `training_step`; None, which skips the step, stays None."""
        if output is None:
            return None
        calls = self._calls or []
        if len(calls) != 1:
            raise ValueError(
                f"AlignmentCallback needs one call of {self.head!r} in training_step, with gradients, but found "
                f"{len(calls)}. Call the penalty in training_step instead."
            )
        features, logits = calls[0]
        targets, domains = (_part(batch, part) for part in (self.targets, self.domains))
        penalty, terms = self.penalty.with_terms(features, logits, targets, domains)
        if self.log:
            values = {"penalty": penalty.detach()} | {f"penalty/{name}": term for name, term in terms.items()}
            module.log_dict(values, batch_size=len(features))
        if isinstance(output, Mapping):
            return {**output, "loss": output["loss"] + penalty}
        return output + penalty


def _part(batch: Any, part: BatchPart) -> Tensor:
    if callable(part):
        return part(batch)
    try:
        found: Tensor = batch[part]
    except (KeyError, IndexError, TypeError):
        keys = f"keys {', '.join(map(repr, batch))}" if isinstance(batch, Mapping) else f"a {type(batch).__name__}"
        keys += f" of {len(batch)}" if isinstance(batch, list | tuple) else ""
        raise ValueError(
            f"The batch has no part {part!r}: it is {keys}. Say where targets and domains are, for instance "
            "AlignmentCallback(penalty, targets=1, domains=2)."
        ) from None
    return found
