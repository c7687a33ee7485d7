"""A training step as one CUDA graph: gather of the rows, forward, penalty, backward, optimizer, sums.

Launching the kernels of a small network's step one by one takes longer than running them; replaying a graph launches
all at once. Row indices come from a block on the device and a counter, so that the host only replays.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.optim import Optimizer

from momentalign.algorithms import Algorithm, Batch, Network
from momentalign.penalties import DomainPenalty
from momentalign.training._steps import BLOCK, Step, Sums, Training, seed_step

_WARM_UP = 3


@contextmanager
def captured_step(training: Training, sums: Sums, start: int) -> Iterator[Step]:
    """Capture a step, and replay it.

    Capturing needs a few steps first: libraries choose their kernels, the optimizer creates its state. They are undone
    in place, so that the first replay is the first step.
    """
    rows, sampler, algorithm = training.rows, training.sampler, training.algorithm
    raw, targets = rows.raw, rows.targets
    assert isinstance(raw, Tensor)
    domains = training.domains()
    block = sampler.block(start // BLOCK).to(training.device)
    position = torch.zeros(1, dtype=torch.long, device=training.device)

    def step() -> None:
        indices = block.index_select(0, position).squeeze(0)
        inputs = training.preprocessing.augment(raw.index_select(0, indices))
        batch = Batch(inputs, targets.index_select(0, indices), domains)
        sums.accumulate(algorithm.update(batch, training.optimizers, training.backward))
        if training.average is not None:
            training.average.add()
        position.add_(1)

    before = _State(training)
    for optimizer in training.optimizers.values():
        for group in optimizer.param_groups:  # on the device, where a schedule can change it under the graph
            group["lr"] = torch.tensor(float(group["lr"]), device=training.device)
    graph = _Graph(step, training)
    names = dict(sums.totals)
    before.restore()
    sums.clear()

    def replay(number: int) -> None:
        if number == start or number % BLOCK == 0:
            fresh = sampler.block(number // BLOCK)
            block.copy_(fresh.pin_memory() if block.is_cuda else fresh, non_blocking=True)
            position.fill_(number % BLOCK)
        seed_step(training.trial, number, training.rank, training.device)
        graph.replay()
        sums.count(names)

    yield replay


class _Graph:
    """A function of no arguments as a CUDA graph; recording runs a few warm-up steps.

    A graph knows addresses, not tensors, so it keeps the function: memory that only the function references would be
    reused between two replays.
    """

    def __init__(self, function: Callable[[], None], training: Training) -> None:
        self.function = function
        self._record(training)

    def _record(self, training: Training) -> None:
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream(training.device)
        stream.wait_stream(torch.cuda.current_stream(training.device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                self.function()
            for optimizer in training.optimizers.values():
                optimizer.zero_grad(set_to_none=True)  # so that the graph's own memory holds the gradients
        with torch.cuda.graph(self.graph, stream=stream):
            self.function()
        torch.cuda.current_stream(training.device).wait_stream(stream)

    def replay(self) -> None:
        """Run the recorded step."""
        self.graph.replay()


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
