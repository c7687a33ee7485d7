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
from momentalign.probing._config import open_data
from momentalign.probing._data import ProbeData, check_group_sizes
from momentalign.probing._features import ProbeFeatures, project
from momentalign.probing._fit import ProbeSolver, bootstrap_rows
from momentalign.probing._methods import PUBLISHED_SCALING, ProbeMethod, find_method
from momentalign.runs import DivergedError, Record, RunConfig, RunFolder, data_stamp, read_records
from momentalign.tables import Column, TableEncoder, TableModel

StepProgress = Callable[[int, int], None]
"""Called with the number of finished steps and the most there can be."""


def run_probe(
    config: RunConfig,
    folder: str | Path | None,
    *,
    data: ProbeData | None = None,
    root: str | Path | None = None,
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
        root: Not used: features are named by their path.
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
    method = find_method(config.algorithm)
    stamp = None if data is not None else data_stamp(config.dataset)
    target = None if folder is None else RunFolder(Path(folder), config, stamp)
    if target is not None and target.finished:
        records = read_records(target.path)
        return [record for record in records if record["step"] == records[-1]["step"]]
    if target is None:
        return _fit(config, method, _features(config, data), None, progress, save)
    with target.recording_failure():
        features = _features(config, data)
        source = None if data is not None else feature_source(config.dataset)
        names = features.data
        target.begin(
            domains=names.domain_names,
            classes=names.classes,
            device="cpu",
            threads=torch.get_num_threads(),
            features=source,
            group_rows={split: names.count_groups(split) for split in SPLIT_NAMES},
        )
        return _fit(config, method, features, target, progress, save)


def _fit(
    config: RunConfig,
    method: ProbeMethod,
    features: ProbeFeatures,
    target: RunFolder | None,
    progress: StepProgress | None,
    save: bool,
) -> list[Record]:
    hparams, train = dict(config.hparams), features.train
    check_group_sizes(features.data, method.name, method.least)
    if hparams["solver"] == "converged":
        solver = ProbeSolver("converged", hparams["l2"], tol=hparams["tol"], max_iter=config.steps)
        rows = bootstrap_rows(features, config.trial)
        recorder = _Recorder(config, method, features, rows, target, progress)
        (head,) = solver.fit_converged(features, method, [hparams], config.trial, watch=recorder.observe)
    else:
        schedule = {"epochs": hparams["epochs"], "batch_size": hparams["batch_size"], "learning_rate": hparams["lr"]}
        solver = ProbeSolver("sgd", hparams["l2"], **schedule)
        rows = SortedRows.sort(train.features, train.targets, train.domains, None, bias=False)
        recorder = _Recorder(config, method, features, rows, target, progress)
        head = solver.fit_sgd(features, method, hparams, config.trial, watch=recorder.step)
        if not head.converged:
            raise DivergedError(head.n_iter)
    last = recorder.finish(head)
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


class _Recorder:
    """Writes records every `record_every` steps, and those of the last step.

    Terms are those of the method over all training rows, unweighted, with the spreads of the domains' gradients and
    Hessians in the units of the published weights, so that methods can be compared.
    """

    def __init__(
        self,
        config: RunConfig,
        method: ProbeMethod,
        features: ProbeFeatures,
        rows: SortedRows,
        target: RunFolder | None,
        progress: StepProgress | None,
    ) -> None:
        self.config, self.features, self.target, self.progress = config, features, target, progress
        classes = len(features.data.classes)
        self.objective = method.objective(rows, classes, 0.0)
        self.spreads = AlignmentObjective(rows, classes, l2=0.0, scaling=PUBLISHED_SCALING)
        self.spreads.set_weights({term_name(order): 1.0 for order in (1, 2)})
        self.seen = 0
        self.pending: tuple[int, float, LinearHead] | None = None
        self.records: list[Record] = []

    def step(self, step: int, loss: float, head: Array) -> None:
        """Count a finished step, with its loss and flattened head."""
        self.seen = step + 1
        linear = LinearHead.of(Solution(head, loss, step, True), self.objective.shape, bias=False)
        self.pending = (step, loss, linear)
        if step % self.config.record_every == 0:
            self._write_pending()
        if self.progress is not None:
            self.progress(self.seen, max(self.config.steps, self.seen))

    def observe(self, loss: float, head: Array) -> None:
        """Count a step of the converged solver."""
        self.step(self.seen, loss, head)

    def finish(self, head: LinearHead) -> list[Record]:
        """Records of the last step, with all measures of the final head."""
        if not self.seen:  # a method of several fits has no steps of its own
            self.pending = (0, head.objective, head)
        self._write_pending()
        known = {record["metric"] for record in self.records}
        more = [
            _record(max(0, self.seen - 1), name, value, split)
            for split in self.features.splits
            for name, value in self.features.measures(head, split).items()
            if name not in known
        ]
        if self.target is not None:
            self.target.append(more)
        return [*self.records, *more]

    def _write_pending(self) -> None:
        """Write the records of the last step if they have not been."""
        if self.pending is not None:
            self.records = self._step_records(*self.pending)
            self.pending = None
            if self.target is not None:
                self.target.append(self.records)

    def _step_records(self, step: int, loss: float, head: LinearHead) -> list[Record]:
        """Records of one step: step-level values first, then accuracies."""
        values = {} if np.isnan(loss) else {"loss": loss}  # a mean of heads has no loss of its own
        if not head.intercept.any():  # terms are those of a head without intercept
            coef = head.coef.ravel()
            values |= self.spreads.terms(coef)
            if isinstance(self.objective, PenaltyObjective):
                values |= self.objective.terms(coef)
        records = [_record(step, name, value) for name, value in values.items()]
        for split in self.features.splits:
            records += self._accuracies(step, split, head)
        return records

    def _accuracies(self, step: int, split: str, head: LinearHead) -> list[Record]:
        data, scores = self.features.data, self.features.score(head, split)
        records = [
            _record(step, "accuracy", scores.average, split),
            _record(step, "worst_group_accuracy", scores.worst, split),
        ]
        records += [
            _record(step, "accuracy", value, split, domain)
            for domain, value in zip(data.domain_names, scores.domains, strict=True)
            if np.isfinite(value)
        ]
        return records + [
            {**_record(step, "group_accuracy", value, split), "group": group}
            for group, value in zip(data.group_names, scores.groups, strict=True)
            if np.isfinite(value)
        ]


def _features(config: RunConfig, data: ProbeData | None) -> ProbeFeatures:
    hparams = config.hparams
    options = {name: hparams[name] for name in ("components", "isr", "isr_class", "isr_scale", "unit_scale")}
    if data is not None:
        return project(data, **options)
    return _projected(open_data(config.dataset), tuple(sorted(options.items())))


@lru_cache(maxsize=1)
def _projected(data: ProbeData, options: tuple[tuple[str, Any], ...]) -> ProbeFeatures:
    """Cache the last features: successive runs of a sweep share them."""
    return project(data, **dict(options))


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
