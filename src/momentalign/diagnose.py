"""From a table to a transfer report: what the command `diagnose` does between parsing and printing."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._files import atomic_write
from momentalign._validation import check_choice, check_count
from momentalign.data import read_table
from momentalign.data._columns import encode, learn_columns, said_of
from momentalign.data._labels import is_quantity
from momentalign.theory import TransferReport, transfer_report

_LOSSES = ("auto", "cross_entropy", "squared_error")


@dataclass(frozen=True)
class Diagnosis:
    """What will be compared, in words, and the comparison itself.

    Args:
        lines: What was read and what was done to it, to print before the work starts.
        run: Makes the report from `l2`, `radius`, `order` and `seed`; tells `progress` the part under way and the share
            of the whole that is made.
    """

    lines: list[str]
    run: Callable[..., TransferReport]


def diagnose_table(
    path: str | Path,
    *,
    target: str = "y",
    domain: str = "domain",
    group: str | None = None,
    split: str | None = None,
    test_domain: str | None = None,
    loss: str = "auto",
    components: int = 50,
) -> Diagnosis:
    """Read a table and set the comparison of its domains up.

    Args:
        path: A .csv, .csv.gz, .parquet or .npz file.
        target: Column of the labels.
        domain: Column that says where a row came from.
        group: Column of groups, which is no feature; `group` is known without being named.
        split: Column of splits: of the sources only training rows are compared; `split` is known as well.
        test_domain: A domain that counts as the unseen target instead of as a source.
        loss: `"cross_entropy"`, `"squared_error"`, or `"auto"`: the latter for many different numbers.
        components: Principal components to keep of wider features.

    Returns:
        The comparison, not yet made.

    Raises:
        ValueError: The table does not have what is asked for.
    """
    check_choice("loss", loss, _LOSSES)
    check_count("components", components, 1)
    table = read_table(path, target=target, domain=domain, group=group, split=split)
    y = table.target
    names, counts = np.unique(table.domains, return_counts=True)
    if test_domain is not None and test_domain not in names:
        raise ValueError(f"'test_domain' should be a domain, but is '{test_domain}'. Found: {', '.join(names)}.")
    chosen = loss
    if loss == "auto":
        chosen = "squared_error" if is_quantity(y) else "cross_entropy"
    kind = "real numbers" if chosen == "squared_error" else f"{len(np.unique(y))} classes"
    lines = [
        f"{Path(path).name}: {len(y)} rows, {table.features.shape[1]} columns, '{target}' taken as {kind}.",
        "Domains: " + ", ".join(f"{name} ({count})" for name, count in zip(names, counts, strict=True)) + ".",
        *table.notes,
    ]
    unseen = table.domains == test_domain
    if test_domain is not None:
        lines.append(f"'{test_domain}' is the target; the others are the sources.")
    sources = ~unseen
    if table.splits is not None:
        sources = sources & np.isin(table.splits, ("train", "in"))
        if not sources.any():
            raise ValueError("The domains to compare should have training rows, but the split column has none.")
        lines.append(f"{int(sources.sum())} rows of the training split are compared, the rest of the sources is not.")
    X, notes = _features(table.features, sources, components)
    lines += notes

    def run(
        *, l2: float, radius: float, order: int, seed: int, progress: Callable[[str, float], None] | None = None
    ) -> TransferReport:
        return transfer_report(
            X[sources],
            y[sources],
            table.domains[sources],
            l2=l2,
            radius=radius,
            order=order,
            loss=chosen,
            seed=seed,
            progress=progress,
            target=X[unseen] if test_domain is not None else None,
            target_labels=y[unseen] if test_domain is not None else None,
        )

    return Diagnosis(lines, run)


def write_page(report: TransferReport, path: Path) -> None:
    """Write the report's page, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, report.to_html())


def _features(frame: Any, sources: NDArray[np.bool_], components: int) -> tuple[NDArray[np.float64], list[str]]:
    """All rows as numbers, by the sources' columns, means and variances; and what was done, a sentence each."""
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    columns, notes = learn_columns(frame[sources])
    encoded = encode(frame, columns)
    numbers = encoded.matrix
    steps = make_pipeline(StandardScaler())
    if numbers.shape[1] > components:
        pca = PCA(min(components, int(sources.sum())), random_state=0)
        steps = make_pipeline(StandardScaler(), pca, StandardScaler())
    steps.fit(numbers[sources])
    if numbers.shape[1] > components:
        notes.append(
            f"{numbers.shape[1]} columns were reduced to {pca.n_components_} principal components, which hold "
            f"{100 * pca.explained_variance_ratio_.sum():.0f} % of the variance."
        )
    return steps.transform(numbers), [*said_of(encoded, "the rows"), *notes]
