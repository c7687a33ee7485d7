"""Records of predictions: accuracy by domain and split, and measures by group."""

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign.data import DomainDataset
from momentalign.runs import Record
from momentalign.training._data import DatasetRows, count_groups


def values_by_key(records: Iterable[Record]) -> dict[tuple[str | None, str | None, str], float | None]:
    """Values of one step's records by domain, split and metric."""
    return {(record["domain"], record["split"], record["metric"]): record["value"] for record in records}


def domain_records(
    rows: DatasetRows,
    metric: str,
    values: NDArray[Any],
    step: int,
    without: Collection[tuple[str, str]] = (),
) -> list[Record]:
    """Mean of the rows' values over every domain's splits; a split without rows, or one in `without`, has no record."""
    return [
        {"step": step, "domain": domain, "split": split, "metric": metric, "value": float(values[first:end].mean())}
        for (domain, split), (first, end) in rows.spans.items()
        if end > first and (domain, split) not in without
    ]


def accuracy_records(
    data: DomainDataset,
    rows: DatasetRows,
    predicted: NDArray[np.integer],
    step: int,
    without: Collection[tuple[str, str]] = (),
    *,
    probabilities: NDArray[np.floating] | None = None,
) -> list[Record]:
    """Accuracy of every domain's splits; where there are groups, also of each group, and the measures over groups.

    These are the measures of :func:`momentalign.sklearn.group_report`, by the names of its `metrics`. A split or group
    without rows has no record, nor has a domain's split in `without`, nor an undefined measure.
    """
    targets = rows.targets.cpu().numpy()
    records = domain_records(rows, "accuracy", predicted == targets, step, without)
    if rows.groups is None or data.group_names is None:
        return records
    from momentalign.sklearn import group_report  # slow to import

    groups, trained = rows.groups.numpy(), count_groups(data).get(data.training_split, {})
    training_rows = {index: trained[name] for index, name in enumerate(data.group_names) if name in trained}
    known = probabilities is not None and bool(np.isfinite(probabilities).all())
    for split in data.split_names:
        chosen = rows.of_split(split).numpy()
        if not len(chosen) or any(name == split for _, name in without):
            continue
        report = group_report(
            targets[chosen],
            predicted[chosen],
            groups[chosen],
            probabilities=probabilities[chosen] if known and probabilities is not None else None,
            train_groups=training_rows if set(training_rows) & set(groups[chosen].tolist()) else None,
            classes=np.arange(data.num_classes),
        )
        for metric, value in report.metrics().items():
            records.append({"step": step, "domain": None, "split": split, "metric": metric, "value": value})
        for group in report.groups:
            name, value = data.group_names[int(group.name)], group.accuracy
            row: Record = {"step": step, "domain": None, "split": split, "metric": "group_accuracy", "value": value}
            records.append({**row, "group": name})
    return records
