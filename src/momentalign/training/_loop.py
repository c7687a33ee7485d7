"""The training loop, from a configuration to a folder of records and weights."""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch.optim import Optimizer

from momentalign.algorithms import reset_optimizer
from momentalign.data import DomainDataset
from momentalign.runs import Record, RunConfig, RunFolder
from momentalign.training._capture import captured_step, compile_parts
from momentalign.training._checkpoint import Position, remove_checkpoint, restore, save_checkpoint
from momentalign.training._data import open_dataset, training_split, validation_split
from momentalign.training._devices import (
    check_ranks,
    choose_capture,
    device_name,
    forget_peak,
    peak_gib,
    place,
    to_device,
    tuned_convolutions,
)
from momentalign.training._evaluator import Evaluator
from momentalign.training._model import (
    build_algorithm,
    describe,
    parts_of,
    size_of,
    training_domains,
    warn_of_oddities,
)
from momentalign.training._options import Options, Reporter, went_on
from momentalign.training._rows import open_rows
from momentalign.training._sampling import Sampler, training_pools
from momentalign.training._steps import Sums, Training, eager_step


def train(
    fabric: Any, config: RunConfig, folder: RunFolder | None, data: DomainDataset | None, options: Options
) -> list[Record]:
    """Train one network: what every rank of a run does.

    Args:
        fabric: Launched; says which device this is, and of how many ranks.
        config: What to run.
        folder: Where to go on, and where the first rank writes; None for nowhere.
        data: The data set, or None to load `config.dataset`.
        options: How to run it.

    Returns:
        The records of the last step.
    """
    device, rank, ranks = fabric.device, fabric.global_rank, fabric.world_size
    forget_peak(device)
    if data is None:
        data = open_dataset(
            config.dataset,
            trial=config.trial,
            root=options.root,
            holdout=config.holdout,
            skip_bad_files=options.skip_bad_files,
        )
    domains = training_domains(config, data)
    held_out = [(name, validation_split(data)) for name in domains]
    if rank == 0:
        warn_of_oddities(config, data)

    # The network, and where a run that was interrupted left it.
    algorithm = build_algorithm(config, data)
    if options.built is not None:
        options.built(algorithm)
    check_ranks(algorithm, config.algorithm, ranks)
    network, encoder = parts_of(algorithm)
    rows = open_rows(data, encoder.preprocessing, device)
    to_device(algorithm, device).train()
    optimizers = algorithm.optimizers()
    position = Position() if folder is None else restore(folder.path, algorithm, optimizers)
    _remember_learning_rate(optimizers)
    fabric.barrier()  # all ranks have read before one of them writes
    writer = folder if rank == 0 else None
    if writer is not None:
        writer.begin(
            domains=data.names,
            classes=data.classes,
            device=device_name(device),
            records_bytes=position.records_bytes,
        )
    algorithm.network = place(fabric, network)
    compile_parts(algorithm, network, options.compile)

    # One mini-batch of every training domain a step, of which a rank takes its share.
    pools = training_pools(rows, domains, training_split(data), pool=config.pool)
    keys = [-1] if config.pool else [data.names.index(name) for name in domains]
    sampler = Sampler(pools, keys, config.hparams["batch_size"], config.trial, rank, ranks, epochs=config.pool)
    workers = options.workers_for(rows, ranks)
    training = Training(
        algorithm, optimizers, fabric.backward, rows, sampler, encoder.preprocessing, config.trial, rank, workers
    )
    sums = Sums()
    if choose_capture(options.capture, training, encoder, ranks):
        steps = captured_step(training, sums, position.step)
    else:
        steps = eager_step(training, sums, position.step, config.steps)
    evaluator = Evaluator(fabric, network, data, rows, domains, config.trial, workers)
    report = Reporter(options.progress if rank == 0 else None, config.steps)
    if rank == 0 and options.say is not None:
        for sentence in (*encoder.notes, *size_of(algorithm, optimizers), *went_on(position.step, config.steps)):
            options.say(sentence)

    records: list[Record] = []
    last_record, saved = position.step - 1, time.monotonic()
    with tuned_convolutions(rows), steps as advance:
        options.clock.lap("set-up")
        for step in range(position.step, config.steps):
            if step == algorithm.reset_step:
                for optimizer in optimizers.values():
                    reset_optimizer(optimizer)
            if config.hparams["schedule"] == "linear":
                _set_learning_rate(optimizers, 1 - step / config.steps)

            advance(step)
            report.step(step)

            if step % config.record_every == 0 or step == config.steps - 1:
                means = sums.take(lambda tensor: fabric.all_reduce(tensor, reduce_op="mean"))  # waits for the device
                means["step_seconds"] = options.clock.lap("steps") / (step - last_record)
                means |= peak_gib(device)
                report.evaluating(step)
                records = evaluator(step, partial(report.evaluating, step)) + [
                    {"step": step, "domain": None, "split": None, "metric": name, "value": value}
                    for name, value in means.items()
                ]
                options.clock.lap("evaluation")
                if writer is not None:
                    position = Position(step + 1, writer.append(records))
                    if options.saves(config, step, time.monotonic() - saved):
                        state = algorithm, optimizers, position
                        save_checkpoint(writer.path, network, describe(network, data), state)
                        saved = time.monotonic()
                report.record(step, records, held_out)
                last_record = step
                options.clock.lap("files")

    if writer is not None:
        if options.save:
            save_checkpoint(writer.path, network, describe(network, data))
        else:
            remove_checkpoint(writer.path)
        writer.finish()
    options.clock.lap("files")
    return records


def _remember_learning_rate(optimizers: Mapping[str, Optimizer]) -> None:
    """Keep what a schedule scales, while it is a plain number: read from a device it would have to be waited for."""
    for optimizer in optimizers.values():
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]


def _set_learning_rate(optimizers: Mapping[str, Optimizer], factor: float) -> None:
    """Scale every learning rate from what it was first; in place where a captured step reads it from the device."""
    for optimizer in optimizers.values():
        for group in optimizer.param_groups:
            rate = group["initial_lr"] * factor
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
