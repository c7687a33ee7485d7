"""A training step as one CUDA graph: gather of the rows, forward, penalty, backward, optimizer, sums.

Row indices come from a block on the device and a counter, so that the host only replays. Rows that are read by a
loader, or augmented by operations that the host chooses, are copied into the graph's inputs before each replay.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor
from torch.optim import Optimizer

from momentalign._graphs import Graph, call_without_waiting
from momentalign.algorithms import Algorithm, Batch, Network
from momentalign.encoders import Encoder
from momentalign.penalties import DomainPenalty
from momentalign.training._steps import BLOCK, Step, Sums, Training, eager_step, raw_batches, seed_step

_WARM_UP = 3


@contextmanager
def captured_step(
    training: Training, sums: Sums, start: int, stop: int, note: Callable[[str], None] | None = None
) -> Iterator[Step]:
    """Capture a step, and replay it.

    Capturing needs a few steps first: libraries choose their kernels, the optimizer creates its state. They are undone
    in place, so that the first replay is the first step. A step that waits for the device cannot be captured: with
    `note`, which is called with the reason, its operations are launched one by one instead.
    """
    on_device = training.rows.on_device and training.preprocessing.capturable
    with _GatheredInputs(training, start) if on_device else _CopiedInputs(training, start, stop) as source:

        def step() -> None:
            sums.accumulate(training.algorithm.update(source.batch(), training.optimizers, training.backward))
            if training.average is not None:
                training.average.add()
            source.advance()

        before = _State(training)
        for optimizer in training.optimizers.values():
            for group in optimizer.param_groups:  # on the device, where a schedule can change it under the graph
                group["lr"] = torch.tensor(float(group["lr"]), device=training.device)
        graph, reason = None, _warm_up(step, training)
        if reason is None:
            graph = Graph(step, training.device)
        elif note is None:
            raise ValueError(f"The step cannot be captured: {reason}. Omit 'capture'.")
        names = dict(sums.totals)
        before.restore()
        sums.clear()
        if graph is not None:

            def replay(number: int) -> None:
                source.prepare(number)
                graph.replay()
                sums.count(names)

            yield replay
            return
    assert note is not None
    note(f"The step cannot be captured in a CUDA graph, which would be faster: {reason}.")
    with eager_step(training, sums, start, stop) as advance:
        yield advance


def choose_capture(asked: bool | None, training: Training, encoder: Encoder, ranks: int) -> bool:
    """Whether steps become a CUDA graph, by default where possible; ValueError if asked for where they cannot."""
    alone = ranks == 1 and training.device.type == "cuda"
    possible = alone and encoder.capturable and training.algorithm.capturable
    if asked and not possible:
        raise ValueError(
            "'capture' needs one CUDA device, an encoder of images or numbers, and a capturable algorithm. Omit it."
        )
    return possible if asked is None else asked


def _warm_up(function: Callable[[], None], training: Training) -> str | None:
    """Run a few steps on a stream of their own; returns why the step cannot be captured, if it cannot."""
    stream = torch.cuda.Stream(training.device)
    stream.wait_stream(torch.cuda.current_stream(training.device))
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP - 1):
            function()
        _, reason = call_without_waiting(function)
        for optimizer in training.optimizers.values():
            optimizer.zero_grad(set_to_none=True)  # so that the graph's own memory holds the gradients
    torch.cuda.current_stream(training.device).wait_stream(stream)
    return reason


class _GatheredInputs(AbstractContextManager["_GatheredInputs"]):
    """Rows on the device, gathered and augmented within the graph."""

    def __init__(self, training: Training, start: int) -> None:
        self.training, self.start = training, start
        self.domains = training.domains()
        self.block = training.sampler.block(start // BLOCK).to(training.device)
        self.position = torch.zeros(1, dtype=torch.long, device=training.device)

    def __exit__(self, *error: object) -> None:
        pass

    def prepare(self, number: int) -> None:
        """Set row indices and seeds before the step is replayed."""
        if number == self.start or number % BLOCK == 0:
            fresh = self.training.sampler.block(number // BLOCK)
            self.block.copy_(fresh.pin_memory() if self.block.is_cuda else fresh, non_blocking=True)
            self.position.fill_(number % BLOCK)
        seed_step(self.training.trial, number, self.training.rank, self.training.device)

    def batch(self) -> Batch:
        """The rows of the step, within the graph."""
        raw, targets = self.training.rows.raw, self.training.rows.targets
        assert isinstance(raw, Tensor)
        indices = self.block.index_select(0, self.position).squeeze(0)
        inputs = self.training.preprocessing.augment(raw.index_select(0, indices))
        return Batch(inputs, targets.index_select(0, indices), self.domains)

    def advance(self) -> None:
        """Go to the next step, within the graph."""
        self.position.add_(1)


class _CopiedInputs(AbstractContextManager["_CopiedInputs"]):
    """Rows that are augmented before a replay, and copied to where the graph reads them."""

    def __init__(self, training: Training, start: int, stop: int) -> None:
        self.training, self.start = training, start
        self.rows = raw_batches(training, start, stop)
        self.first = next(self.rows)  # for the warm-up too
        self.inputs = training.preprocessing.augment(self.first[0]).clone()
        self.targets, self.domains = self.first[1].clone(), training.domains()

    def __exit__(self, *error: object) -> None:
        self.rows.close()

    def prepare(self, number: int) -> None:
        """Augment the rows of a step, and copy them to the graph."""
        raw, targets = self.first if number == self.start else next(self.rows)
        seed_step(self.training.trial, number, self.training.rank, self.training.device)
        self.inputs.copy_(self.training.preprocessing.augment(raw))
        self.targets.copy_(targets)

    def batch(self) -> Batch:
        """The rows of the step, within the graph."""
        return Batch(self.inputs, self.targets, self.domains)

    def advance(self) -> None:
        """Nothing: the rows come from outside."""


def compile_parts(algorithm: Algorithm, network: Network, parts: str) -> None:
    """Compile the penalty ("penalty"), also the network ("all") or nothing ("none") in place."""
    penalty = getattr(algorithm, "penalty", None)
    if parts != "none" and isinstance(penalty, DomainPenalty):
        penalty.with_terms = torch.compile(penalty.with_terms, dynamic=False)  # type: ignore[method-assign]
    if parts == "all":
        network.compile(dynamic=False)


class _State:
    """State that a step changes, to be restored in place: a graph keeps its addresses."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self.before = {key: tensor.clone() for key, tensor in self._tensors().items()}

    @torch.no_grad()
    def restore(self) -> None:
        """Restore everything; what is new or has another size was empty, and becomes zero."""
        for key, tensor in self._tensors().items():
            kept = self.before.get(key)
            if kept is not None and kept.shape == tensor.shape:
                tensor.copy_(kept)
            else:
                tensor.zero_()

    def _tensors(self) -> dict[str, Tensor]:
        average = self.training.average
        return {
            **{f"algorithm.{name}": tensor for name, tensor in self.training.algorithm.state_dict().items()},
            **{f"optimizer.{key}": tensor for key, tensor in _optimizer_tensors(self.training.optimizers).items()},
            **({} if average is None else {f"average.{name}": tensor for name, tensor in average.state()[0].items()}),
        }


def _optimizer_tensors(optimizers: Mapping[str, Optimizer]) -> dict[str, Tensor]:
    return {
        f"{name}.{index}.{key}": value
        for name, optimizer in optimizers.items()
        for index, state in optimizer.state_dict()["state"].items()
        for key, value in state.items()
        if isinstance(value, Tensor)
    }
