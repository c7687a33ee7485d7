"""Evaluate a trained network on another data set, or on its own."""

import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import torch

from momentalign._format import join_first
from momentalign._table_spec import inherit_spec, split_spec
from momentalign._validation import check_count
from momentalign.data import DomainDataset, Split, TableRows, load_dataset
from momentalign.encoders import Preprocessing
from momentalign.runs import read_run
from momentalign.tables import is_model_folder
from momentalign.training._accuracy_records import accuracy_records
from momentalign.training._data import DatasetRows, open_rows
from momentalign.training._evaluator import predict_rows
from momentalign.training._options import RunOptions
from momentalign.training._predictor import Predictor, load_run


class Score(NamedTuple):
    """One number of an evaluation.

    Args:
        domain: Name of the domain; None for all.
        split: Name of the split; None for all rows.
        group: Name of the group, where it is one group's.
        metric: "accuracy"; where there are groups also "group_accuracy", and the measures of
            :func:`momentalign.sklearn.group_report` by the names of its `metrics`.
        rows: Number of rows.
        value: Between 0 and 1.
    """

    domain: str | None
    split: str | None
    group: str | None
    metric: str
    rows: int
    value: float


def evaluate(
    folder: str | Path,
    dataset: str | Path | DomainDataset,
    *,
    root: str | Path | None = None,
    device: str = "cpu",
    batch_size: int | None = None,
    workers: int | None = None,
    skip_bad_files: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[Score]:
    """Accuracy of a run's network on each domain and split; if there are groups, on each, and the measures over groups.

    Classes are matched by name. The data set is split as in the run's trial, so that on the run's own data set the
    held-out rows are those that it was not trained on.

    Args:
        folder: Folder of the run.
        dataset: Name or path of a data set, or one of your own. A table is read like the run's own, with the same
            columns, separator and encoding, unless it names others (:func:`momentalign.data.table_spec`).
        root: Data folder.
        device: Where to compute.
        batch_size: Rows at a time; None for a default by kind of rows and device.
        workers: Processes that read images; None for one per core.
        skip_bad_files: Skip unreadable images.
        progress: Called with rows done and rows in all.

    Returns:
        The scores: every split of every domain, every domain as a whole, all rows, then groups.
    """
    if is_model_folder(Path(folder)):
        raise ValueError(
            f"{folder} should be the folder of a run ('momentalign train'), but holds a model of 'momentalign probe'. "
            "Use momentalign.tables.score_file, or the command 'momentalign evaluate'."
        )
    config = read_run(Path(folder))["config"]
    model = load_run(folder).to(device)
    if not isinstance(dataset, DomainDataset):
        dataset = load_dataset(
            inherit_spec(str(dataset), split_spec(config["dataset"])[1]),
            trial=config["trial"],
            root=root,
            holdout=config["holdout"],
            skip_bad=skip_bad_files,
        )
    data = _with_classes_of(model, dataset)
    rows = open_rows(data, model.preprocessing, torch.device(device))
    _warn_missing_values(data, model.preprocessing)
    predicted = torch.zeros(len(rows), dtype=torch.long)
    probabilities = torch.zeros(len(rows) if data.group_names is not None else 0, data.num_classes)
    done = 0
    size = rows.evaluation_batch if batch_size is None else check_count("batch_size", batch_size, 1)
    batches = predict_rows(
        model.network,
        rows,
        model.preprocessing,
        batch_size=size,
        workers=RunOptions(workers=workers).workers_for(rows, 1),
    )
    with torch.no_grad(), closing(batches):
        for indices, _, logits in batches:
            span = slice(int(indices[0]), int(indices[-1]) + 1)
            predicted[span] = logits.argmax(1).cpu()
            if len(probabilities):
                probabilities[span] = logits.float().softmax(1).cpu()
            done += len(indices)
            if progress is not None:
                progress(done, len(rows))
    return _scores(data, rows, predicted, probabilities)


def _warn_missing_values(data: DomainDataset, preprocessing: Preprocessing) -> None:
    """Warn about values of a table that are missing or unknown to the run."""
    parts = [rows.inputs for splits in data.domains.values() for rows in splits.values() if len(rows)]
    tables = [part for part in parts if isinstance(part, TableRows)]
    if tables:
        for note in preprocessing.describe_rows(TableRows.joined(tables), data.name):
            warnings.warn(note, stacklevel=3)


def _with_classes_of(model: Predictor, data: DomainDataset) -> DomainDataset:
    """The data set with the class indices of the model."""
    if data.is_regression:
        raise ValueError(f"The run has classes, but the targets of {data.name} are numbers.")
    unknown = [name for name in data.classes if name not in model.classes]
    if unknown:
        raise ValueError(
            f"{data.name} should have no classes but the run's ({join_first(model.classes)}), but has "
            f"{join_first(unknown)}."
        )
    if data.classes == model.classes:
        return data
    numbers = torch.tensor([model.classes.index(name) for name in data.classes])
    domains = {
        domain: {split: Split(rows.inputs, numbers[rows.targets], rows.groups) for split, rows in splits.items()}
        for domain, splits in data.domains.items()
    }
    number = len(model.classes)
    recipe = data.training_recipe
    return DomainDataset(data.name, number, domains, model.classes, data.group_names, recipe, data.notes)


def _scores(
    data: DomainDataset, rows: DatasetRows, predicted: torch.Tensor, probabilities: torch.Tensor
) -> list[Score]:
    def score(domain: str | None, split: str | None, right: torch.Tensor) -> Score:
        return Score(domain, split, None, "accuracy", len(right), float(right.double().mean()))

    correct = predicted == rows.targets.cpu()
    scores = []
    for domain, splits in data.domains.items():
        parts = {split: correct[slice(*rows.spans[domain, split])] for split in splits}
        scores += [score(domain, split, part) for split, part in parts.items() if len(part)]
        whole = torch.cat(list(parts.values()))
        if len(whole) and len(parts) > 1:
            scores.append(score(domain, None, whole))
    scores.append(score(None, None, correct))
    if rows.groups is None or data.group_names is None:
        return scores
    for record in accuracy_records(data, rows, predicted.numpy(), 0, probabilities=probabilities.numpy()):
        if record["domain"] is None and record["value"] is not None:
            group = record.get("group")
            groups = rows.groups[rows.of_split(str(record["split"]))]
            count = len(groups) if group is None else int((groups == data.group_names.index(group)).sum())
            scores.append(Score(None, record["split"], group, record["metric"], count, record["value"]))
    return scores
