"""The transfer report: all measures, distances and bounds of a set of domains in one object."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from momentalign._batch import LOSSES, check_order
from momentalign._extras import require
from momentalign._format import align_columns, printable
from momentalign._types import Array
from momentalign._validation import check_choice
from momentalign.penalties import term_name
from momentalign.theory._bounds import ManySourceBounds, TargetErrors, many_source_bounds, target_errors
from momentalign.theory._distances import DerivativeDistances, MomentGaps, derivative_distances, tensor_moment_gaps
from momentalign.theory._hull import HullCheck, hull_check
from momentalign.theory._losses import DomainLosses, check_positive
from momentalign.theory._pareto import ParetoPoint, pareto_point
from momentalign.theory._taylor import TaylorBound, taylor_bounds
from momentalign.theory._transfer import TransferMeasures, transfer_measures


@dataclass(frozen=True, eq=False)
class TransferReport:
    """Result of :func:`transfer_report`. Print it, or convert it to a data frame.

    Attributes:
        losses: The domains' losses.
        pareto: The head at the centre of the ball.
        measures: Transfer measures.
        bounds: Bounds for many sources, for the balanced mixture and for the midpoint of the gaps.
        norms: Distances between the samples' derivatives by order, biased upward as estimates for the domains.
        taylor: Taylor bounds by order and form.
        distances: Unbiased estimates of their squares by order, with intervals.
        moments: Gaps between the domains' feature moments.
        hull: The hull check, if there is a target.
        target: Losses of the target and bounds on them, if it has labels.
    """

    losses: DomainLosses
    pareto: ParetoPoint
    measures: TransferMeasures
    bounds: ManySourceBounds
    norms: dict[int, Array]
    taylor: dict[tuple[int, str], TaylorBound]
    distances: dict[int, DerivativeDistances]
    moments: MomentGaps
    hull: HullCheck | None
    target: TargetErrors | None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the domains, in the order of all matrices; source in rows, target in columns."""
        return self.losses.names

    @property
    def worst_pair(self) -> tuple[str, str]:
        """Source and target with the largest one-sided transfer measure."""
        i, j = max(self._pairs, key=lambda pair: self.measures.one_sided[pair])
        return self.names[i], self.names[j]

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        return list(permutations(range(len(self.names)), 2))

    def matrices(self) -> dict[str, Array]:
        """All matrices between domains, by the name of their column in the data frame."""
        found = {name: getattr(self.measures, name) for name in ("one_sided", "symmetric", "realizable")}
        for r, one in self.distances.items():
            columns = {"distance": self.norms[r], **vars(one)}
            found |= {f"{term_name(r)}_{what}": matrix for what, matrix in columns.items()}
        for r in self.norms:
            bound = self.taylor[r, "full"]
            found |= {f"taylor_{r}": bound.pairs, f"taylor_{r}_remainder": bound.remainder}
        return found | {"mean_gap": self.moments.mean, "covariance_gap": self.moments.covariance}

    def to_frame(self) -> Any:
        """One row for each ordered pair of domains, one column for each measure, distance, bound and gap.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        source, target = np.array(self._pairs).T
        names = np.array(self.names, dtype=object)
        columns = {name: matrix[source, target] for name, matrix in self.matrices().items()}
        pandas = require("pandas", "to_frame() needs", extra="cli")
        return pandas.DataFrame({"source": names[source], "target": names[target], **columns})

    def tables(self) -> dict[str, list[list[str]]]:
        """The numbers as text by their title: the domains, matrices without intervals and remainders, and bounds."""
        pareto, minima, counts = self.pareto, self.measures.minima, self.losses.domains.bincount()
        about = np.column_stack([counts, pareto.values, minima, pareto.gradient_norms, pareto.weights])
        head = ["rows", "loss", "smallest loss", "gradient norm", "weight"]
        found = {"Domains at the centre of the ball": _table(["domain", *head], self.names, about)}
        for title, matrix in self.matrices().items():
            if "square" not in title and "remainder" not in title:
                found[title] = _table(["", *self.names], self.names, matrix)
        bounds = dict(vars(self.bounds))
        for r in self.norms:
            bound, gap = self.taylor[r, "full"], self.bounds.gap
            bounds[f"taylor_{r} mixture"] = bound.mixture(gap)
            bounds[f"taylor_{r} mixture with remainder"] = bound.mixture(gap, remainder=True)
        found["Bounds on the transfer to a target in the hull"] = _table(["", "value"], bounds, bounds.values())
        if self.target is not None:
            errors = {name: value for name, value in vars(self.target).items() if np.ndim(value) == 0}
            found["The labelled target at the centre of the ball"] = _table(["", "value"], errors, errors.values())
        return found

    def summary(self) -> list[str]:
        """The data, the worst pair, what limits these numbers, and whether the target is in the hull, in sentences."""
        losses, measures = self.losses, self.measures
        rows, columns = losses.features.shape
        classes = f", {len(losses.classes)} classes" if losses.classes else ""
        source, target = (printable(name) for name in self.worst_pair)
        below = [str(r) for r in self.norms if (self.taylor[r, "full"].pairs < measures.one_sided - 1e-9).any()]
        found = [
            f"{len(self.names)} domains, {rows} rows, {columns} features{classes}; loss {losses.loss}, "
            f"l2 = {losses.l2:g}, radius = {measures.radius:g}.",
            f"Worst pair: from '{source}' to '{target}' (one-sided measure {measures.one_sided.max():.4g}): a head of "
            f"the ball can be that much further from the best on '{target}' than it is on '{source}'.",
            "Transfer measures are exact."
            if measures.exact
            else "Transfer measures are lower estimates, found by ascent; so are the bounds computed from them.",
        ]
        if below:
            found.append(
                f"The Taylor bound of order {', '.join(below)} lies below a measured transfer: at this radius the "
                "omitted terms matter. Use the bound with its remainder, or a smaller radius."
            )
        return [*found, printable(str(self.hull))] if self.hull is not None else found

    def __str__(self) -> str:
        parts = ["\n".join(["Transfer report: source in rows, target in columns.", *self.summary()])]
        for title, (head, *body) in self.tables().items():
            lines = align_columns([head, *body], right=range(1, len(head)))
            parts.append("\n  ".join([title, *lines]))
        return "\n\n".join(parts)


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
) -> TransferReport:
    """Measure how a linear head would transfer between domains, and what bounds its error on an unseen one.

    All measures are over the ball of heads within `radius` of the weakly Pareto-optimal head with the smallest
    largest gradient norm. Radius and l2 are in units of the head: standardise the features first, and reduce very wide
    ones (say, to 100 principal components), since every pair of domains costs an ascent over all parameters. The same
    call gives the same report.

    Args:
        X: Features, shape (n, d): an array, a data frame or a tensor.
        y: Labels of any kind, shape (n,); real numbers, shape (n,) or (n, C), for squared error.
        domains: Domain of each row, shape (n,): numbers or strings.
        l2: Adds ½·l2·‖θ‖² to every domain's loss, the bias included.
        radius: √δ of the bounds.
        order: Highest order of derivatives, 1 to 3 for cross-entropy, any for the other losses.
        target: Features of a target sample, shape (m, d), for the hull check.
        target_labels: Its labels, shape (m,), if known; its loss is then compared with the bounds.
        loss: `"cross_entropy"`, `"logistic"` (two classes, one logit) or `"squared_error"`.

    Raises:
        ValueError: The arrays do not fit together or a setting is out of its range.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> site = np.repeat(["north", "south"], 50)
        >>> X = rng.normal(size=(100, 2)) + (site == "south")[:, None]
        >>> report = transfer_report(X, X[:, 0] + rng.normal(size=100) > 0.5, site)
        >>> len(report.to_frame())
        2
    """
    radius = check_positive("radius", radius)
    check_order(order, check_choice("loss", loss, LOSSES))
    if target is None and target_labels is not None:
        raise ValueError("'target_labels' was given without 'target'. Pass the features of these rows as 'target'.")
    losses = DomainLosses(X, y, domains, l2=l2, loss=loss)
    hull = None if target is None else hull_check(losses, target, target_labels)
    pareto = pareto_point(losses)
    measures = transfer_measures(losses, pareto.head, radius)
    bounds = many_source_bounds(losses, measures)
    norms = losses.derivative_norms(pareto.head, order)
    errors = None
    if target_labels is not None:
        errors = target_errors(losses, target, target_labels, pareto.head, radius, bounds)
    return TransferReport(
        losses,
        pareto,
        measures,
        bounds,
        norms,
        taylor_bounds(losses, pareto.head, radius, measures.minima, norms),
        derivative_distances(losses, pareto.head, order=order),
        tensor_moment_gaps(losses.features, losses.domains, len(losses)),
        hull,
        errors,
    )


def _table(head: list[str], names: Iterable[str], rows: Iterable[Any]) -> list[list[str]]:
    """A head, and lines of a name and its numbers as text."""
    lines = [[name, *(f"{value:.4g}" for value in np.atleast_1d(row))] for name, row in zip(names, rows, strict=True)]
    return [[printable(cell) for cell in line] for line in (head, *lines)]
