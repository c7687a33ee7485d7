"""Transfer report of the domains of a table."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from momentalign._types import Array, ReportProgress
from momentalign._validation import check_choice, check_count
from momentalign.tables._columns import fit_encoder
from momentalign.tables._labels import is_quantity
from momentalign.tables._table import read_table
from momentalign.theory import TransferReport, transfer_report

_LOSSES = ("auto", "cross_entropy", "squared_error")


@dataclass(frozen=True, eq=False)
class TableDiagnosis:
    """A planned comparison of domains, from :func:`plan_diagnosis`; :meth:`run` executes it.

    Args:
        lines: What was read and what will be done, one sentence each.
        inputs: Arguments of :func:`~momentalign.theory.transfer_report`.
    """

    lines: list[str]
    inputs: dict[str, Any]

    def run(
        self, *, l2: float, radius: float, order: int, seed: int, progress: ReportProgress | None = None
    ) -> TransferReport:
        """Compute the report; see :func:`~momentalign.theory.transfer_report`."""
        return transfer_report(**self.inputs, l2=l2, radius=radius, order=order, seed=seed, progress=progress)


def plan_diagnosis(
    path: str | Path,
    *,
    target: str = "y",
    domain: str = "domain",
    group: str | None = None,
    split: str | None = None,
    test_domain: str | None = None,
    loss: str = "auto",
    components: int = 50,
) -> TableDiagnosis:
    """Read a table and plan the comparison of its domains.

    Args:
        path: A .csv, .csv.gz, .parquet or .npz file.
        target: Column of the labels.
        domain: Column of the domains.
        group: Column of groups, which is not a feature; None uses `group` if the table has it.
        split: Column of splits: only training rows of the sources are compared; None uses `split` if the table has it.
        test_domain: A domain that is the unseen target instead of a source.
        loss: `"cross_entropy"`, `"squared_error"`, or `"auto"`: the latter for more than 20 distinct numbers.
        components: Principal components to keep of wider features.

    Returns:
        The plan; its `lines` describe it, its `run` computes the report.
    """
    check_choice("loss", loss, _LOSSES)
    check_count("components", components, 1)
    table = read_table(path, target=target, domain=domain, group=group, split=split)
    if test_domain is not None:
        check_choice("test_domain", test_domain, np.unique(table.domains).tolist())
    y = table.target
    if loss == "auto":
        loss = "squared_error" if is_quantity(y) else "cross_entropy"
    kind = "real numbers" if loss == "squared_error" else f"{len(np.unique(y))} classes"
    lines = table.describe(path, target, kind)
    unseen = table.domains == test_domain
    if test_domain is not None:
        lines.append(f"'{test_domain}' is the target; the others are the sources.")
    sources = table.training_rows & ~unseen
    if table.splits is not None:
        if not sources.any():
            raise ValueError("The domains to compare should have training rows, but the split column has none.")
        lines.append(f"{sources.sum()} rows of the training split are compared; other rows of the sources are not.")
    encoder, _, notes = fit_encoder(table.features[sources], components)
    encoded = encoder.encode(table.features)
    lines += [*encoded.describe("the rows"), *notes]
    X: Array = encoder.transform(encoded.matrix)
    if encoder.matrix is not None:
        X = StandardScaler().fit(X[sources]).transform(X)
    inputs = {"X": X[sources], "y": y[sources], "domains": table.domains[sources], "loss": loss}
    if test_domain is not None:
        inputs |= {"target": X[unseen], "target_labels": y[unseen]}
    return TableDiagnosis(lines, inputs)
