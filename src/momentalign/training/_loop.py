"""The training loop."""

import time
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch.optim import Optimizer

from momentalign._model_file import MODEL, write_model
from momentalign.algorithms import WeightAverage, find_training_recipe, make_average, reset_optimizer
from momentalign.data import DomainDataset
from momentalign.runs import AVERAGED, Record, RunConfig, RunFolder
from momentalign.training._batch_moments import batch_moments
from momentalign.training._capture import captured_step, choose_capture, compile_parts
from momentalign.training._checkpoint import Part, Position, restore, save_checkpoint
from momentalign.training._data import describe_data, open_dataset, open_rows
from momentalign.training._devices import (
    peak_memory,
    wrap_network,
)
from momentalign.training._evaluator import Evaluator, as_averaged, count_held_out, held_out_mean, step_record
from momentalign.training._keep import KeptRecord, check_keep
from momentalign.training._loggers import RunLog
from momentalign.training._model import (
    build_algorithm,
    check_ranks,
    describe_network,
    describe_size,
    device_name,
    parts_of,
    training_domains,
    warn_unusual,
)
from momentalign.training._options import Reporter, RunOptions
from momentalign.training._steps import Sampler, Sums, Training, eager_step, training_pools, tuned_convolutions


def train(
    fabric: Any, config: RunConfig, folder: RunFolder | None, data: DomainDataset | None, options: RunOptions
) -> list[Record]:
    """Train one network, on every rank; the first rank writes to the folder. Returns the records of the last step."""
    device, rank, ranks = fabric.device, fabric.global_rank, fabric.world_size
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    if data is None:
        data = open_dataset(config, options.root, skip_bad_files=options.skip_bad_files)
    domains = training_domains(config, data)
    held_out = [(name, data.validation_split) for name in domains]
    if rank == 0:
        warn_unusual(config, data)

    # The network, restored from the checkpoint of an interrupted run.
    algorithm = build_algorithm(config, data, options.root)
    if options.built is not None:
        options.built(algorithm)
    check_ranks(algorithm, config.algorithm, ranks)
    network, encoder = parts_of(algorithm)
    rows = open_rows(data, encoder.preprocessing, device)
    algorithm.to(device).train()
    if device.type == "cuda":
        algorithm.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # convolutions are fastest
    optimizers = algorithm.optimizers()
    recipe = find_training_recipe(data.training_recipe)
    start = recipe.average_start(config.steps, algorithm.reset_step)
    average = make_average(config.average, network, config.steps, start)
    if config.average == "swad":
        count_held_out(rows, held_out, "--average swad")
    parts: dict[str, Part] = {} if average is None else {"average": average}
    kept: KeptRecord | None = None
    if options.save and config.keep != "last":
        check_keep(config.keep, data)
        number = count_held_out(rows, held_out, f"--keep {config.keep}")
        metric = "accuracy" if average is None else f"{AVERAGED}accuracy"
        kept = KeptRecord(config.keep, held_out, number, config.steps, metric, config.reach)
        parts["kept"] = kept
    position = Position()
    if folder is not None:
        position = restore(folder.path, algorithm, optimizers, parts, steps=config.steps, warn=rank == 0)
    threads = torch.get_num_threads()
    if rank == 0 and folder is not None and position.step and device.type == "cpu":
        before = folder.info.get("threads", threads)
        if before != threads:
            warnings.warn(
                f"The run was begun with {before} threads and resumes with {threads}, so its weights differ from an "
                f"uninterrupted run's by rounding. Use OMP_NUM_THREADS={before}, or the same --jobs of a sweep.",
                stacklevel=2,
            )
    _keep_learning_rate(optimizers)
    fabric.barrier()  # all ranks have read before one of them writes
    writer = folder if rank == 0 else None
    if writer is not None:
        about = describe_data(data)
        writer.begin(**about, device=device_name(device), records_bytes=position.records_bytes, threads=threads)
    algorithm.network = wrap_network(fabric, network)
    compile_parts(algorithm, network, options.compile)

    # One mini-batch of every training domain per step, shared by the ranks.
    pools = training_pools(rows, domains, data.training_split, pool=config.pool)
    keys = [-1] if config.pool else [data.names.index(name) for name in domains]
    sampler = Sampler(pools, keys, config.hparams["batch_size"], config.trial, rank, ranks, epochs=config.pool)
    workers = options.workers_for(rows, ranks)
    training = Training(
        algorithm,
        optimizers,
        fabric.backward,
        rows,
        sampler,
        encoder.preprocessing,
        config.trial,
        rank,
        workers,
        average,
    )
    sums = Sums()
    capture = choose_capture(options.capture, training, encoder, ranks)
    if capture:
        note = (options.log or (lambda _: None)) if options.capture is None else None
        steps = captured_step(training, sums, position.step, config.steps, note)
    else:
        steps = eager_step(training, sums, position.step, config.steps)
    evaluator = Evaluator(
        fabric,
        network,
        data,
        rows,
        domains,
        config.trial,
        workers,
        train_accuracy=options.train_accuracy,
        capture=capture,
    )
    report = Reporter(options.progress if rank == 0 else None, config.steps)
    if rank == 0 and options.log is not None:
        resume_note = [f"Resuming at step {position.step} of {config.steps}."] if position.step else []
        for message in (*encoder.notes, describe_size(optimizers), *resume_note):
            options.log(message)

    records: list[Record] = []
    last_record, saved = position.step - 1, time.monotonic()
    log = RunLog(options.loggers, None if writer is None else writer.path, config)
    with log, tuned_convolutions(rows), steps as advance:
        options.clock.lap("set-up")
        for step in range(position.step, config.steps):
            if step == algorithm.reset_step:
                for optimizer in optimizers.values():
                    reset_optimizer(optimizer)
            if config.hparams["schedule"] == "linear":
                _set_learning_rate(optimizers, 1 - step / config.steps)
            if average is not None:
                average.before(step)

            advance(step)
            report.step(step)

            if step % config.record_every == 0 or step == config.steps - 1:
                means = sums.take(lambda tensor: fabric.all_reduce(tensor, reduce_op="mean"))  # waits for the device
                means["step_seconds"] = options.clock.lap("steps") / (step - last_record)
                means |= peak_memory(device)
                report.evaluation(step)
                records = evaluator(step, partial(report.evaluation, step))
                if recipe.batch_moments:
                    records += batch_moments(fabric, network, training, step)
                records += [step_record(step, name, value) for name, value in means.items()]
                if average is not None:
                    average.record(step, held_out_mean(records, held_out, "cross_entropy"))
                with _averaged(average) as applied:
                    if applied:
                        records += as_averaged(evaluator(step, partial(report.evaluation, step), gaps=False))
                    elif average is not None:
                        records += as_averaged(records)
                    if kept is not None:
                        kept.record(step, records, network.state_dict())
                options.clock.lap("evaluation")
                if writer is not None:
                    writer.append(records)
                    log.record(records)
                    if options.saves(config, step, time.monotonic() - saved):
                        position = Position(step + 1, writer.sync_records())
                        about = describe_network(network, data)
                        save_checkpoint(
                            writer.path, network.state_dict(), about, position, algorithm, optimizers, parts
                        )
                        saved = time.monotonic()
                report.record(step, records, held_out)
                last_record = step
                options.clock.lap("files")

    if writer is not None:
        chosen: dict[str, Any] = {"average": config.average, "step": config.steps - 1, "keep": "last"}
        if kept is not None and kept.step is not None:
            chosen |= kept.describe()
        if options.save:
            with _averaged(average):
                weights = network.state_dict() if chosen["keep"] == "last" or kept is None else kept.weights
                writer.sync_records()  # a model means that the records are complete
                write_model(writer.path / MODEL, weights, {**describe_network(network, data), "weights": chosen})
        writer.finish(weights=chosen if options.save else None)
    options.clock.lap("files")
    return records


def _averaged(average: WeightAverage | None) -> AbstractContextManager[bool]:
    """The network with its averaged weights, where there are some."""
    return nullcontext(False) if average is None else average.applied()


def _keep_learning_rate(optimizers: Mapping[str, Optimizer]) -> None:
    """Keep the rate that a schedule scales while it is a plain number: reading it from a device would block."""
    for optimizer in optimizers.values():
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]


def _set_learning_rate(optimizers: Mapping[str, Optimizer], factor: float) -> None:
    """Scale every initial learning rate; in place where a captured step reads it from the device."""
    for optimizer in optimizers.values():
        for group in optimizer.param_groups:
            rate = group["initial_lr"] * factor
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
