"""scikit-learn's linear models as runs: baselines for tables."""

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from momentalign._validation import check_choice
from momentalign.algorithms import PLAIN_MODELS
from momentalign.data import DomainDataset
from momentalign.encoders import build_encoder
from momentalign.runs import Record, RunConfig, RunFolder, data_stamp, read_records
from momentalign.training._accuracy_records import accuracy_records
from momentalign.training._config import make_config
from momentalign.training._data import DatasetRows, describe_data, open_dataset, open_rows
from momentalign.training._model import training_domains

_HPARAMS: dict[str, dict[str, Any]] = {
    "logistic-regression": {"C": 1.0, "max_iter": 1000},
    "logistic-regression-cv": {"Cs": 10, "cv": 5, "max_iter": 1000},
}


def make_plain_config(dataset: str | DomainDataset, model: str, **options: Any) -> RunConfig:
    """Make the configuration of a plain model on a table: scikit-learn's defaults, but for `max_iter`.

    Args:
        dataset: Path of a table, or a data set of rows of a table (give it to :func:`run_plain` as well).
        model: One of :data:`momentalign.algorithms.PLAIN_MODELS`.
        **options: `test_domains`, `trial`, `steps`, `record_every`, `holdout` and `root` of :func:`make_config`. The
            steps are those of the networks beside it: the model's one record is at the last of them.

    Raises:
        ValueError: There is no such model.
    """
    check_choice("model", model, tuple(PLAIN_MODELS))
    config = make_config(dataset, "erm", **options)
    return dataclasses.replace(config, algorithm=model, hparams=_HPARAMS[model], preset="published")


def run_plain(
    config: RunConfig,
    folder: str | Path | None,
    *,
    data: DomainDataset | None = None,
    root: str | Path | None = None,
    train_accuracy: bool = True,
) -> list[Record]:
    """Fit a plain model to the training rows, and record its accuracy on every domain's splits.

    The rows, the split and the encoding of the columns are those of a network with the same test domains and trial.
    Only training rows are fitted, and only they choose `C` of `LogisticRegressionCV`. Returns a finished run unchanged.

    Args:
        config: Of :func:`make_plain_config`.
        folder: Folder of the record; None writes nothing.
        data: The data set, where `config.dataset` is not a file.
        root: Data folder.
        train_accuracy: Whether to record the accuracy on the rows that are trained on.
    """
    stamp = None if data is not None else data_stamp(config.dataset)
    target = None if folder is None else RunFolder(Path(folder), config, stamp)
    if target is not None and target.finished:
        return read_records(target.path)
    if data is None:
        data = open_dataset(config, root)
    if data.training_recipe != "table":
        raise ValueError(f"{PLAIN_MODELS[config.algorithm]} takes rows of a table, but {data.name} is none.")
    if target is None:
        return _fit(config, data, train_accuracy)
    with target.recording_failure():
        target.begin(**describe_data(data), device="cpu", threads=torch.get_num_threads())
        records = _fit(config, data, train_accuracy)
        target.append(records)
        target.finish(weights=None)
        return records


def _fit(config: RunConfig, data: DomainDataset, train_accuracy: bool) -> list[Record]:
    """Fit the model; its records are of the last step."""
    split = data.training_split
    trained = [(name, split) for name in training_domains(config, data) if split in data.domains[name]]
    preprocessing = build_encoder(None, data, [data.domains[name][split] for name, _ in trained]).preprocessing
    rows = open_rows(data, preprocessing, torch.device("cpu"))
    assert isinstance(rows.raw, torch.Tensor)
    X = preprocessing.to_inputs(rows.raw).double().numpy()
    table = _probabilities(config, X, rows, trained, data.num_classes)
    without = () if train_accuracy else trained
    return accuracy_records(data, rows, table.argmax(1), config.steps - 1, without, probabilities=table)


def _probabilities(
    config: RunConfig, X: NDArray[np.float64], rows: DatasetRows, trained: list[tuple[str, str]], classes: int
) -> NDArray[np.float64]:
    """Class probabilities of all rows, shape (N, C), by the model fitted to the spans of `trained`."""
    from sklearn.exceptions import ConvergenceWarning

    fitted = torch.cat([rows.indices(*part) for part in trained]).numpy()
    y = rows.targets.numpy()[fitted]
    probabilities = np.zeros((len(X), classes))
    present = np.unique(y)
    if len(present) == 1:  # nothing to tell apart
        probabilities[:, present] = 1.0
        return probabilities
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        model = _make_model(config, y).fit(X[fitted], y)
    probabilities[:, model.classes_] = model.predict_proba(X)
    return probabilities


def _make_model(config: RunConfig, y: NDArray[Any]) -> Any:
    """The estimator; with fewer folds than its default where the largest class has fewer rows."""
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
    from sklearn.model_selection import StratifiedKFold

    hparams = dict(config.hparams)
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    largest = int(counts.max())
    if config.algorithm == "logistic-regression" or largest < 2:
        return LogisticRegression(C=hparams.get("C", 1.0), max_iter=hparams["max_iter"])
    options: dict[str, Any] = {"scoring": "accuracy", "cv": min(hparams["cv"], largest)}
    if "use_legacy_attributes" in LogisticRegressionCV().get_params():  # without these newer releases warn
        options |= {"l1_ratios": (0,), "use_legacy_attributes": False}
    elif counts.min() == 1:  # older ones fail where the training rows of a fold lack a class
        single = np.flatnonzero(counts[codes] == 1)
        folds = StratifiedKFold(options["cv"]).split(codes, codes)
        options["cv"] = [(np.union1d(train, single), np.setdiff1d(test, single)) for train, test in folds]
    return LogisticRegressionCV(**hparams | options)
