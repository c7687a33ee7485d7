"""Run one probe: fit its head and write records and model into a run folder."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from momentalign._datasets import SPLIT_NAMES
from momentalign._table_spec import spec_path
from momentalign._types import Array
from momentalign.linear import AlignmentObjective, LinearHead, PenaltyObjective, Solution, SortedRows
from momentalign.penalties import term_name
from momentalign.probing._data import ProbeData
from momentalign.probing._features import ProbeFeatures, project
from momentalign.probing._fit import ProbeSolver, bootstrap_rows
from momentalign.probing._methods import PUBLISHED_SCALING, find_method
from momentalign.runs import DivergedError, Record, RunConfig, RunFolder, data_stamp, read_records
from momentalign.tables import Column, TableEncoder, TableModel

StepProgress = Callable[[int, int], None]
"""Called with the number of finished steps and the most there can be."""


def run_probe(
    config: RunConfig,
    folder: str | Path | None,
    *,
    data: ProbeData | None = None,
    progress: StepProgress | None = None,
    save: bool = True,
) -> list[Record]:
    """Fit one head, with records over its steps, and write its folder.

    Steps of SGD are counted from 0, with records after the first, the last and every `record_every`-th. A step of the
    converged solver is a pass over the training rows that lowered its objective, first without penalties, then with
    them. Returns a finished run unchanged; an interrupted one starts again, since a probe takes seconds.

    Args:
        config: Of :func:`make_probe_config`.
        folder: Folder of records and model; None writes nothing.
        data: The features, where `config.dataset` is not a file.
        progress: Called after each step.
        save: Whether to save the model.

    Returns:
        The records of the last step.

    Raises:
        ValueError: A configuration of another kind, or a folder of another configuration.
        DiskFullError: The disk is full; the same call starts the probe again.
    """
    if config.setting != "probe" or "solver" not in config.hparams:
        raise ValueError("A probe takes a configuration of make_probe_config, but this is of another kind.")
    stamp = None if data is not None else data_stamp(config.dataset)
    if folder is None:
        return _Probe(config, _features(config, data), None, progress).run()[1]
    target = RunFolder(Path(folder), config, stamp)
    if target.finished:
        records = read_records(target.path)
        return [record for record in records if record["step"] == records[-1]["step"]]
    with target.recording_failure():
        features = _features(config, data)
        names = features.data
        target.begin(
            domains=names.domain_names,
            classes=names.classes,
            device="cpu",
            threads=torch.get_num_threads(),
            features=None if data is not None else feature_source(config.dataset),
            group_rows={split: names.count_groups(split) for split in SPLIT_NAMES},
        )
        head, records = _Probe(config, features, target, progress).run()
        if save:
            _table_model(features, head).save(target.path)
        target.finish()
        return records


class _Probe:
    """Fits a head; writes records every `record_every` steps, and those of the last step.

    Terms are those of the method over all training rows, unweighted, with the spreads of the domains' gradients and
    Hessians in the units of the published weights, so that methods can be compared.
    """

    latest: LinearHead

    def __init__(
        self, config: RunConfig, features: ProbeFeatures, target: RunFolder | None, progress: StepProgress | None
    ) -> None:
        self.config, self.features, self.target, self.progress = config, features, target, progress
        self.method, hparams, train = find_method(config.algorithm), config.hparams, features.train
        self.method.check_groups(features.data)
        if hparams["solver"] == "converged":
            self.solver = ProbeSolver("converged", hparams["l2"], hparams["tol"], config.steps)
            rows = bootstrap_rows(features, config.trial)
        else:
            schedule = {name: hparams[name] for name in ("epochs", "batch_size")}
            self.solver = ProbeSolver("sgd", hparams["l2"], learning_rate=hparams["lr"], **schedule)
            rows = SortedRows.sort(train.features, train.targets, train.domains, None, bias=False)
        classes = len(features.data.classes)
        self.objective = self.method.objective(rows, classes, 0.0)
        self.spreads = AlignmentObjective(rows, classes, l2=0.0, scaling=PUBLISHED_SCALING)
        self.spreads.set_weights({term_name(order): 1.0 for order in (1, 2)})
        self.step = -1
        self.records: list[Record] = []

    def run(self) -> tuple[LinearHead, list[Record]]:
        """The head, and the records of the last step with all measures."""
        (head,) = self.solver.fit(
            self.features, self.method, [self.config.hparams], self.config.trial, watch=self._finish_step
        )
        if self.solver.name == "sgd" and not head.converged:
            raise DivergedError(head.n_iter)
        if self.step < 0:  # a method of several fits has no steps of its own
            self.step, self.latest = 0, head
        if not self.records or self.records[0]["step"] < self.step:
            self._write()
        known = {record["metric"] for record in self.records}
        more = [
            _record(self.step, name, value, split)
            for split in self.features.splits
            for name, value in self.features.measures(head, split).items()
            if name not in known
        ]
        self._append(more)
        return head, [*self.records, *more]

    def _finish_step(self, loss: float, head: Array) -> None:
        """Count a finished step, with its loss and flattened head."""
        self.step += 1
        self.latest = LinearHead.of(Solution(head, loss, self.step, True), self.objective.shape, bias=False)
        if self.step % self.config.record_every == 0:
            self._write()
        if self.progress is not None:
            self.progress(self.step + 1, max(self.config.steps, self.step + 1))

    def _append(self, records: list[Record]) -> None:
        if self.target is not None:
            self.target.append(records)

    def _write(self) -> None:
        """Write the records of the latest step: step-level values first, then accuracies."""
        step, head, names = self.step, self.latest, self.features.data
        values = {} if np.isnan(head.objective) else {"loss": head.objective}  # a mean of heads has no loss of its own
        if not head.intercept.any():  # terms are those of a head without intercept
            coef = head.coef.ravel()
            values |= self.spreads.terms(coef)
            if isinstance(self.objective, PenaltyObjective):
                values |= self.objective.terms(coef)
        self.records = [_record(step, name, value) for name, value in values.items()]
        for split in self.features.splits:
            scores = self.features.score(head, split)
            self.records.append(_record(step, "accuracy", scores.average, split))
            self.records.append(_record(step, "worst_group_accuracy", scores.worst, split))
            for name, value in zip(names.domain_names, scores.domains, strict=True):
                if np.isfinite(value):
                    self.records.append(_record(step, "accuracy", value, split, name))
            for name, value in zip(names.group_names, scores.groups, strict=True):
                if np.isfinite(value):
                    self.records.append({**_record(step, "group_accuracy", value, split), "group": name})
        self._append(self.records)


def _table_model(features: ProbeFeatures, head: LinearHead) -> TableModel:
    """The head with its projection, as a model of tables with columns x0, x1, …."""
    projection = features.projection
    columns = tuple(Column(f"x{k}", float(value)) for k, value in enumerate(projection.mean))
    encoder = TableEncoder(columns, projection.mean, np.ones_like(projection.mean), projection.matrix)
    about = {"target": "y", "domain": "domain", "isr_class": projection.isr_class}
    return TableModel(encoder, head.coef, head.intercept, features.data.classes, about)


def _features(config: RunConfig, data: ProbeData | None) -> ProbeFeatures:
    names = ("components", "isr", "isr_class", "isr_scale", "unit_scale")
    options = tuple((name, config.hparams[name]) for name in names)
    if data is not None:
        return project(data, **dict(options))
    return _projected(config.dataset, data_stamp(config.dataset), options)


@lru_cache(maxsize=1)  # successive runs of a sweep share their features, while the file does not change
def _projected(path: str, stamp: str | None, options: tuple[tuple[str, Any], ...]) -> ProbeFeatures:
    return project(ProbeData.from_file(path), **dict(options))


def _record(step: int, metric: str, value: float, split: str | None = None, domain: str | None = None) -> Record:
    return {"step": step, "domain": domain, "split": split, "metric": metric, "value": float(value)}


def feature_source(path: str | Path) -> dict[str, str]:
    """Data set and encoder of a file that `momentalign embed` wrote, by "dataset" and "encoder"; empty for others."""
    from momentalign.encoders import read_plan

    plan = read_plan(Path(spec_path(str(path))))
    try:
        return {"dataset": str(plan["data set"]["name"]), "encoder": str(plan["encoder"]["name"])}
    except (KeyError, TypeError):
        return {}
