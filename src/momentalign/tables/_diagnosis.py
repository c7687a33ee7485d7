"""Diagnosis of the domains of a table: how they differ, what that costs a plain model, and what to try."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from momentalign._types import Array, ReportProgress, ignore_progress
from momentalign._validation import check_choice, check_count
from momentalign.tables._column_shifts import ColumnShift, rank_columns
from momentalign.tables._columns import Column, fit_encoder
from momentalign.tables._findings import advise, describe_findings
from momentalign.tables._labels import check_classes, check_domains, encode_classes, encode_targets, is_quantity
from momentalign.tables._leaks import describe_leaks
from momentalign.tables._plain_fits import ComparedRows, PlainFits, RemedyScore, fit_plain, fit_remedies
from momentalign.tables._shifts import DomainShift, find_shifts
from momentalign.tables._table import Table, read_table
from momentalign.tables._timing import threads_for
from momentalign.theory import DomainLosses, TransferReport, hull_check, transfer_report

_LOSSES = ("auto", "cross_entropy", "squared_error")
_MOST_COMPARED = 12
"""Transfer measures take an ascent for every pair of domains: of more domains, the largest are compared."""


@dataclass(frozen=True, eq=False)
class DomainDiagnosis:
    """Result of :meth:`TableDiagnosis.run`.

    Args:
        rows: The rows compared.
        fits: A plain model with each domain left out.
        remedies: What balanced rows and alignment gain on left-out domains; empty with fewer than three.
        shifts: Label, diversity and correlation shift of each domain.
        columns: Columns by what they contribute to the difference, the largest first.
        target: Name of the unseen domain, if any.
        transfer: Measures, distances and bounds.
    """

    rows: ComparedRows
    fits: PlainFits
    remedies: tuple[RemedyScore, ...]
    shifts: tuple[DomainShift, ...]
    columns: tuple[ColumnShift, ...]
    target: str | None
    transfer: TransferReport

    def findings(self) -> list[str]:
        """Findings as sentences; a difference is stated only if a test or an interval finds it."""
        return describe_findings(self)

    def advice(self) -> list[str]:
        """Recommendations, a sentence each with its evidence."""
        return advise(self)


@dataclass(frozen=True, eq=False)
class TableDiagnosis:
    """A planned comparison of domains, from :func:`plan_diagnosis`; :meth:`run` executes it.

    Args:
        lines: What was read and what will be done, one sentence each.
        rows: The rows compared, those of the target included.
        numbers: Encoded columns of these rows, not standardised, shape (n, D).
        missing: Whether a value was missing, shape (n, columns).
        columns: What the D numbers are.
        target: Name of the unseen domain, if any.
        loss: Of the transfer report.
    """

    lines: list[str]
    rows: ComparedRows
    numbers: Array
    missing: NDArray[np.bool_]
    columns: tuple[Column, ...]
    target: str | None
    loss: str

    def run(
        self, *, l2: float, radius: float, order: int, seed: int, progress: ReportProgress | None = None
    ) -> DomainDiagnosis:
        """Compare the domains; see :func:`~momentalign.theory.transfer_report` for the arguments."""
        report = progress or ignore_progress

        def part(begin: float, end: float) -> ReportProgress:
            return lambda name, share: report(name, begin + (end - begin) * share)

        rows = self.rows
        with threads_for(rows.features.size):
            report("transfer measures", 0)  # first, because it checks its settings before any work
            transfer = self._measure(l2=l2, radius=radius, order=order)
            fits = fit_plain(rows, seed, part(0.5, 0.7))
            shifts = find_shifts(rows, fits.outputs, seed, part(0.7, 0.75))
            remedies = fit_remedies(rows, part(0.75, 1))
            columns = rank_columns(self.numbers, self.missing, self.columns, rows.domains, len(rows.names))
        report("done", 1.0)
        return DomainDiagnosis(rows, fits, remedies, shifts, tuple(columns), self.target, transfer)

    def _measure(self, **settings: Any) -> TransferReport:
        """The transfer report of the sources, of the largest if there are many; the hull is that of all of them."""
        rows, names = self.rows, np.array(self.rows.names, dtype=object)
        is_source = names != self.target
        largest = np.argsort(-rows.counts * is_source, kind="stable")[:_MOST_COMPARED]
        sources = is_source[rows.domains]
        compared = sources & np.isin(rows.domains, largest)

        def arrays(chosen: NDArray[np.bool_]) -> tuple[Array, NDArray[Any], NDArray[Any]]:
            return rows.features[chosen], rows.targets[chosen], names[rows.domains[chosen]]

        target: dict[str, Any] = {}
        if self.target is not None:
            labels = rows.targets[~sources]
            known = rows.classes is None or np.isin(labels, rows.targets[compared]).all()
            target = {"target": rows.features[~sources], "target_labels": labels if known else None}
        X, y, domains = arrays(compared)
        report = transfer_report(X, y, domains, loss=self.loss, **target, **settings)
        if target and compared.sum() < sources.sum():
            losses = DomainLosses(*arrays(sources), loss=self.loss)
            report = replace(report, hull=hull_check(losses, **target))
        return report


def plan_diagnosis(
    path: str | Path,
    *,
    test_domain: str | None = None,
    loss: str = "auto",
    components: int = 50,
    **reading: str | None,
) -> TableDiagnosis:
    """Read a table and plan the comparison of its domains.

    Args:
        path: A table. Of the sources only the training rows are compared, where it has splits.
        test_domain: A domain that is the unseen target instead of a source.
        loss: `"cross_entropy"`, `"squared_error"`, or `"auto"`: the latter for more than 20 distinct numbers.
        components: Principal components to keep of wider features.
        **reading: How to read the file, see :func:`read_table`: target, domain, group, split, sep, encoding.

    Returns:
        The plan; its `lines` describe it, its `run` computes the diagnosis.

    Raises:
        ValueError: No such file or columns, or fewer than two domains to compare.
    """
    check_choice("loss", loss, _LOSSES)
    check_count("components", components, 1)
    table = read_table(path, **reading)
    check_domains(table.domains, table.columns["domain"])
    if test_domain is not None:
        check_choice("test_domain", test_domain, np.unique(table.domains).tolist())
    if loss == "auto":
        loss = "squared_error" if is_quantity(table.target) else "cross_entropy"
    kind = "real numbers"
    if loss == "cross_entropy":
        check_classes(table.target, table.columns["target"])
        classes = np.unique(table.target)
        if len(classes) < 2:
            raise ValueError(
                f"Column '{table.columns['target']}' should hold at least two classes, but all rows are of "
                f"'{classes[0]}'. Name another '--target'."
            )
        kind = f"{len(classes)} classes"
    lines = table.describe(kind)
    unseen = table.domains == test_domain
    if test_domain is not None:
        lines.append(f"'{test_domain}' is the target; the others are the sources.")
    sources = table.training_rows & ~unseen
    if table.splits is not None:
        if not sources.any():
            raise ValueError("The domains to compare should have training rows, but the split column has none.")
        lines.append(f"{sources.sum()} rows of the training split are compared; other rows of the sources are not.")
    if (found := len(np.unique(table.domains[sources]))) < 2:
        besides = "" if test_domain is None else f" besides '{test_domain}'"
        raise ValueError(
            f"There should be at least two domains to compare{besides}, but there is {found}. Add rows of other "
            "domains, or name another column with --domain."
        )
    encoder, _, notes = fit_encoder(table.features[sources], components)
    encoded = encoder.encode(table.features)
    lines += [*encoded.describe("the rows"), *notes]
    chosen = sources | unseen
    X: Array = encoder.transform(encoded.matrix)
    if encoder.matrix is not None:
        X = StandardScaler().fit(X[sources]).transform(X)
    missing = table.features[[column.name for column in encoder.columns]].isna().to_numpy()
    rows = _domain_rows(table, X, chosen, loss)
    lines += describe_leaks(
        table.features[chosen], encoder.columns, rows.targets, table.columns["target"], numbers=rows.classes is None
    )
    return TableDiagnosis(lines, rows, encoded.matrix[chosen], missing[chosen], encoder.columns, test_domain, loss)


def _domain_rows(table: Table, features: Array, chosen: NDArray[np.bool_], loss: str) -> ComparedRows:
    names, domains = np.unique(table.domains[chosen], return_inverse=True)
    classes: tuple[str, ...] | None = None
    targets: NDArray[Any] = table.target[chosen]
    if loss == "cross_entropy":
        classes, targets = encode_classes(targets, table.names.get("target", ()))
    else:
        _, targets = encode_targets(targets, "regression", column_name=table.columns["target"])
    return ComparedRows(features[chosen], targets, domains, tuple(map(str, names)), classes)
