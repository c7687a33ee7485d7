"""One probe, into a folder of the form that every run has."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._errors import in_one_line
from momentalign._files import DiskFullError, is_disk_full
from momentalign._seeds import seed_hash
from momentalign.data import DomainDataset
from momentalign.linear import LinearHead
from momentalign.probing._config import open_data
from momentalign.probing._converged import bootstrap_weights, fit_converged
from momentalign.probing._curves import Curves
from momentalign.probing._data import ProbeData
from momentalign.probing._features import ProbeFeatures, project
from momentalign.probing._methods import ProbeMethod, find_method
from momentalign.probing._sgd import SgdSettings, fit_sgd
from momentalign.probing._solvers import absolute_l2
from momentalign.probing._source import source_of
from momentalign.tables import Column, TableEncoder, TableModel
from momentalign.training import RunConfig, read_records
from momentalign.training._folder import Record, RunFolder
from momentalign.training._stamp import data_stamp

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]
"""Told the steps that are done and how many there are at most."""


def run_probe(
    config: RunConfig,
    folder: str | Path | None,
    *,
    data: ProbeData | None = None,
    root: str | Path | None = None,
    progress: Progress | None = None,
    save: bool = True,
) -> list[Record]:
    """Fit one head, with curves over its steps, and write its folder.

    Steps of SGD are counted from 0, with records after the first, the last and every `record_every`-th. A step of the
    converged solver is a pass over the training rows that lowered its objective, first without penalties, then with
    them; records are of the same kind. A finished folder is read; a half-finished one is begun again, since a probe
    takes seconds.

    Args:
        config: Of :func:`make_probe_config`.
        folder: Where records and the head go; None writes nothing.
        data: The features, where `config.dataset` is no file.
        root: Not used: features are named by their path.
        progress: Told how many steps are done.
        save: Whether to keep the head.

    Returns:
        The records of the last step.

    Raises:
        ValueError: A configuration that is no probe's, or a folder of another one.
        DiskFullError: There is no room left; the same call begins the probe again.
    """
    if config.setting != "probe" or "solver" not in config.hparams:
        raise ValueError("A probe takes a configuration of make_probe_config, but this is of another kind.")
    method = find_method(config.algorithm)
    stamp = None if data is not None else data_stamp(config.dataset)
    target = None if folder is None else RunFolder(Path(folder), config, stamp)
    if target is not None and target.finished:
        records = read_records(target.path)
        return [record for record in records if record["step"] == records[-1]["step"]]
    if target is None:
        return _fit(config, method, _features(config, data), None, progress, save)
    try:
        features = _features(config, data)
        target.begin(_named(features.data), "cpu", 0)
        target.about["features"] = None if data is not None else source_of(config.dataset)
        return _fit(config, method, features, target, progress, save)
    except Exception as error:
        message = in_one_line(error)
        full = is_disk_full(error)
        if full:
            message = f"The disk that {target.path} is on is full. Make room and run the same again."
        target.fail(message, disk_full=full)
        if full:
            raise DiskFullError(message) from None
        raise
    finally:
        target.close()


def _fit(
    config: RunConfig,
    method: ProbeMethod,
    features: ProbeFeatures,
    target: RunFolder | None,
    progress: Progress | None,
    save: bool,
) -> list[Record]:
    hparams, train = dict(config.hparams), features.train
    converged = hparams["solver"] == "converged"
    weights = bootstrap_weights(train, seed_hash("bootstrap", config.trial)) if converged else None
    writer = _Writer(config, Curves(features, method, weights), target, progress)
    common: dict[str, Any] = {"classes": len(features.data.classes), "l2": absolute_l2(features, hparams["l2"])}
    head: LinearHead
    if converged:
        (head,) = fit_converged(
            method,
            train,
            [hparams],
            tol=hparams["tol"],
            max_iter=config.steps,
            row_weights=weights,
            watch=lambda value, head: writer.step(writer.seen, value, head),
            **common,
        )
    else:
        head = fit_sgd(
            method,
            train,
            {name: hparams[name] for name in (*method.grid, "anneal_steps") if name in hparams},
            SgdSettings(hparams["epochs"], hparams["batch_size"], hparams["lr"]),
            domains=len(features.data.domain_names),
            seed=seed_hash("batches", config.trial),
            watch=writer.step,
            **common,
        )
        if not head.converged:
            raise ValueError(f"The loss stopped being a number at step {head.n_iter}. Use a smaller weight or lr.")
    last = writer.last()
    if target is not None:
        if save:
            _table_model(features, head).save(target.path / "checkpoint")
        target.finish()
    return last


def _table_model(features: ProbeFeatures, head: LinearHead) -> TableModel:
    """The head with its projection, as a model of tables with columns x0, x1, …."""
    projection = features.projection
    columns = tuple(Column(f"x{k}", float(value)) for k, value in enumerate(projection.mean))
    encoder = TableEncoder(columns, projection.mean, np.ones_like(projection.mean), projection.matrix)
    about = {"target": "y", "domain": "domain", "isr_class": projection.isr_class}
    return TableModel(encoder, head.coef, head.intercept, features.data.classes, about)


class _Writer:
    """Writes records every so many steps; the last step's whatever its number."""

    def __init__(self, config: RunConfig, curves: Curves, target: RunFolder | None, progress: Progress | None) -> None:
        self.config, self.curves, self.target, self.progress = config, curves, target, progress
        self.seen = 0
        self.pending: tuple[int, float, Array] | None = None
        self.records: list[Record] = []

    def step(self, step: int, value: float, head: Array) -> None:
        """A step is done."""
        self.seen = step + 1
        self.pending = (step, value, head)
        if step % self.config.record_every == 0:
            self.last()
        if self.progress is not None:
            self.progress(self.seen, max(self.config.steps, self.seen))

    def last(self) -> list[Record]:
        """Records of the step before, written if they have not been."""
        if self.pending is not None:
            self.records = self.curves.records(*self.pending)
            self.pending = None
            if self.target is not None:
                self.target.append(self.records)
        return self.records


def _features(config: RunConfig, data: ProbeData | None) -> ProbeFeatures:
    hparams = config.hparams
    options = {name: hparams[name] for name in ("components", "isr", "isr_class", "isr_scale", "unit_scale")}
    if data is not None:
        return project(data, **options)
    return _projected(open_data(config.dataset), tuple(sorted(options.items())))


@lru_cache(maxsize=1)
def _projected(data: ProbeData, options: tuple[tuple[str, Any], ...]) -> ProbeFeatures:
    """The last features, since runs of a sweep follow one another on the same ones."""
    return project(data, **dict(options))


def _named(data: ProbeData) -> DomainDataset:
    """What the folder says of the data: names, no rows."""
    return DomainDataset(
        data.name,
        len(data.classes),
        {name: {} for name in data.domain_names},
        classes=data.classes,
        group_names=data.group_names,
        training_recipe="table",
    )
