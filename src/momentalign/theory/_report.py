"""The transfer report: all measures, distances and bounds of a set of domains in one object."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from momentalign._batch import LOSSES, check_order
from momentalign._extras import require
from momentalign._files import atomic_write
from momentalign._types import Array, ReportProgress, ignore_progress
from momentalign._validation import check_choice, check_count
from momentalign.theory._bounds import ManySourceBounds, TargetErrors, many_source_bounds, target_errors
from momentalign.theory._distances import DerivativeDistances, MomentGaps, derivative_distances, tensor_moment_gaps
from momentalign.theory._hull import HullCheck, hull_check
from momentalign.theory._inputs import check_level, check_radius
from momentalign.theory._losses import DomainLosses
from momentalign.theory._minimize import domain_minimizers
from momentalign.theory._pareto import ParetoPoint, pareto_point
from momentalign.theory._render import report_page, report_sections, report_text
from momentalign.theory._tables import pair_columns
from momentalign.theory._taylor import FORMS, TaylorBound, taylor_bound
from momentalign.theory._transfer import TransferMeasures, transfer_measures


@dataclass(frozen=True, eq=False)
class TransferReport:
    """Result of :func:`transfer_report`. Print it, or convert it to a data frame or a web page.

    Attributes:
        names: Names of the domains, in the order of all matrices; source in rows, target in columns.
        losses: The domains' losses.
        pareto: The head at the centre of the ball.
        values: The domains' losses there, shape (K,).
        measures: Transfer measures.
        bounds: Bounds for many sources, for the balanced mixture and for the midpoint of the gaps.
        taylor: Taylor bounds by order and form.
        distances: Distances between derivatives by order, with unbiased estimates and intervals.
        moments: Gaps between the domains' feature moments.
        hull: The hull check, if there is a target.
        target: Losses of the target and bounds on them, if it has labels.
        notes: Limitations of these numbers.
    """

    names: tuple[str, ...]
    losses: DomainLosses
    pareto: ParetoPoint
    values: Array
    measures: TransferMeasures
    bounds: ManySourceBounds
    taylor: dict[tuple[int, str], TaylorBound]
    distances: dict[int, DerivativeDistances]
    moments: MomentGaps
    hull: HullCheck | None
    target: TargetErrors | None
    notes: tuple[str, ...]

    @property
    def order(self) -> int:
        """The highest order of derivatives in the report."""
        return max(self.distances)

    @property
    def worst_pair(self) -> tuple[str, str]:
        """Source and target with the largest one-sided transfer measure."""
        return self.measures.worst_pair

    def __str__(self) -> str:
        return report_text(self)

    def to_frame(self) -> Any:
        """One row for each ordered pair of domains, one column for each measure, distance, bound and gap.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        return require("pandas", "to_frame() needs", extra="cli").DataFrame(pair_columns(self))

    def to_html(self, path: str | Path | None = None) -> str:
        """Self-contained page with heat maps: no script, no network, light and dark.

        Args:
            path: File to write the page to, if any.
        """
        content = report_page(self)
        if path is not None:
            atomic_write(Path(path), content)
        return content

    def html_sections(self, heading: str = "h2") -> str:
        """The sections of that page, to embed in another one, with the tag of their headings."""
        return report_sections(self, heading)


def transfer_report(
    X: Any,
    y: Any,
    domains: Any,
    *,
    l2: float = 1e-2,
    radius: float = 1.0,
    order: int = 3,
    target: Any = None,
    target_labels: Any = None,
    loss: str = "cross_entropy",
    bias: bool = True,
    restarts: int = 8,
    resamples: int = 200,
    level: float = 0.9,
    max_rows: int = 4000,
    seed: int = 0,
    progress: ReportProgress | None = None,
) -> TransferReport:
    """Measure how a linear head would transfer between domains, and what bounds its error on an unseen one.

    All measures are over the ball of heads within `radius` of the weakly Pareto-optimal head with the smallest
    largest gradient norm. Radius and l2 are in units of the head: standardise the features first, and reduce very wide
    ones (say, to 100 principal components), since every pair of domains costs an ascent over all parameters.

    Args:
        X: Features, shape (n, d): an array, a data frame or a tensor.
        y: Labels of any kind, shape (n,); real numbers, shape (n,) or (n, C), for squared error.
        domains: Domain of each row, shape (n,): any labels, strings included.
        l2: Adds ½·l2·‖θ‖² to every domain's loss, the bias included.
        radius: √δ of the bounds.
        order: Highest order of derivatives, 1 to 4 for cross-entropy, any for the other losses.
        target: Features of a target sample, shape (m, d), for the hull check.
        target_labels: Its labels, shape (m,), if known; its loss is then compared with the bounds.
        loss: `"cross_entropy"`, `"logistic"` (two classes, one logit) or `"squared_error"`.
        bias: Whether the head has a bias.
        restarts: Random starts of each search.
        resamples: Resamples of each bootstrap; at least 20.
        level: Coverage of the bootstrap intervals.
        max_rows: Rows used in the bootstraps; if there are more, equal shares of the domains are drawn.
        seed: Seed of everything random: the same call gives the same report.
        progress: Called with the name of the current part and the fraction of the whole done, 0 to 1.

    Raises:
        ValueError: The arrays do not fit together or a setting is out of its range.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> site = np.repeat(["north", "south"], 50)
        >>> X = rng.normal(size=(100, 2)) + (site == "south")[:, None]
        >>> report = transfer_report(X, X[:, 0] + rng.normal(size=100) > 0.5, site, resamples=20)
        >>> len(report.to_frame())
        2
    """
    # All settings are checked before any work starts.
    radius = check_radius(radius)
    check_order(order, check_choice("loss", loss, LOSSES))
    check_level(level)
    for name, value, least in (("restarts", restarts, 0), ("resamples", resamples, 20), ("max_rows", max_rows, 1)):
        check_count(name, value, least)
    if target is None and target_labels is not None:
        raise ValueError("'target_labels' was given without 'target'. Pass the features of these rows as 'target'.")
    losses = DomainLosses(X, y, domains, l2=l2, loss=loss, bias=bias)
    bootstrap = {"resamples": resamples, "max_rows": max_rows, "seed": seed}
    begins = _part_begins(len(losses), target is not None, target_labels is not None)
    report = progress or ignore_progress

    def report_pairs(fraction: float) -> None:
        begin, end = begins["transfer measures"], begins["bounds"]
        report("transfer measures", begin + fraction * (end - begin))

    report("hull check", 0.0)
    hull = None if target is None else hull_check(losses, target, target_labels, **bootstrap)
    report("Pareto point", begins["Pareto point"])
    pareto = pareto_point(losses, restarts=restarts, seed=seed)
    heads = domain_minimizers(losses)
    report_pairs(0.0)
    measures = transfer_measures(
        losses, pareto.head, radius, restarts=restarts, seed=seed, minimizers=heads, progress=report_pairs
    )
    report("bounds", begins["bounds"])
    bounds = many_source_bounds(losses, measures)
    report("distances of derivatives", begins["distances of derivatives"])
    distances = derivative_distances(losses, pareto.head, order=order, level=level, **bootstrap)
    plain = {r: one.plain for r, one in distances.items()}
    taylor = {
        (r, form): taylor_bound(losses, pareto.head, radius, measures.minima, order=r, form=form, distances=plain)
        for r in distances
        for form in FORMS
    }
    report("target", begins["target"])
    errors = None
    if target_labels is not None:
        errors = target_errors(losses, target, target_labels, pareto.head, radius, bounds, restarts=restarts, seed=seed)
    report("done", 1.0)
    return TransferReport(
        losses.names,
        losses,
        pareto,
        losses.values(pareto.head),
        measures,
        bounds,
        taylor,
        distances,
        tensor_moment_gaps(losses.features, losses.domains, len(losses)),
        hull,
        errors,
        tuple(_notes(losses, measures, taylor, max_rows)),
    )


def _notes(
    losses: DomainLosses, measures: TransferMeasures, taylor: dict[tuple[int, str], TaylorBound], max_rows: int
) -> list[str]:
    notes = []
    if measures.exact:
        notes.append("Squared error: the transfer measures are exact.")
    else:
        notes.append("Transfer measures are lower estimates, found by ascent; so are the bounds computed from them.")
    below = [
        str(r) for r, form in taylor if form == "full" and (taylor[r, form].pairs < measures.one_sided - 1e-9).any()
    ]
    if below:
        notes.append(
            f"At this radius the Taylor bound of order {', '.join(below)} lies below what was measured for some pair: "
            "the omitted terms matter. Use the bound with its remainder, or a smaller radius."
        )
    for name, count in zip(losses.names, losses.counts.tolist(), strict=True):
        if count == 1:
            notes.append(f"Domain '{name}' has one row: no unbiased distance and no covariance for it.")
    if losses.classes:
        for index, name in enumerate(losses.names):
            if len(losses.targets[losses.domains == index].unique()) == 1:
                notes.append(f"Domain '{name}' has a single class: its best head predicts only that one.")
    if len(losses.features) > max_rows:
        notes.append(f"Unbiased distances, intervals and the hull check use a seeded draw of about {max_rows} rows.")
    return notes


def _part_begins(domains: int, target: bool, labels: bool) -> dict[str, float]:
    """Fraction of a report that is done when each of its parts begins."""
    # Relative durations on tables of 800 to 4,000 rows.
    durations = {
        "hull check": 10.0 * target,
        "Pareto point": 18.0,
        "transfer measures": 2.5 * domains * (domains - 1),
        "bounds": 6.0,
        "distances of derivatives": 8.0,
        "target": 5.0 * labels,
    }
    ends = np.cumsum(list(durations.values()))
    return {part: float((end - own) / ends[-1]) for (part, own), end in zip(durations.items(), ends, strict=True)}
