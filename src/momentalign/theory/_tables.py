"""What a report shows, gathered once for the text, the data frame and the page."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from momentalign.theory._inputs import Floats

if TYPE_CHECKING:
    from momentalign.theory._report import TransferReport

TERMS = {1: "gradient", 2: "hessian", 3: "order_3"}
"""Names of the orders as the penalties call their terms."""

_SPOKEN = {1: "gradients", 2: "Hessians", 3: "third derivatives"}


class Matrix(NamedTuple):
    """A titled matrix between domains."""

    title: str
    values: Floats
    remark: str
    intervals: tuple[Floats, Floats] | None = None


class Row(NamedTuple):
    """A named number with a remark."""

    name: str
    value: float
    remark: str


def matrices(report: "TransferReport") -> list[Matrix]:
    """All matrices between domains, in the order they are shown."""
    measures, N = report.measures, report.order
    how = "exact" if measures.exact else "lower estimates"
    shown = [
        Matrix("One-sided transfer measure", measures.one_sided, f"sup of (L_j − L_j*) − (L_i − L_i*); {how}"),
        Matrix("Symmetric transfer measure", measures.symmetric, f"the larger of both directions; {how}"),
        Matrix("Realizable transfer measure", measures.realizable, f"sup of |L_i − L_j|; {how}"),
    ]
    for r, found in report.distances.items():
        shown.append(Matrix(f"Distance of {_SPOKEN[r]}", found.plain, "of these samples, noise included"))
        remark = f"root of the unbiased square with {found.level:.0%} interval; 0 where noise outweighs distance"
        shown.append(Matrix(f"Distance of {_SPOKEN[r]}, unbiased", found.unbiased, remark, found.intervals))
    shown += [
        Matrix(
            f"Taylor bound of order {N}", report.taylor[N, "full"].pairs, "on the one-sided measure, remainder apart"
        ),
        Matrix("Gap of feature means", report.moments.mean, f"average {report.moments.average_mean:.4g}"),
        Matrix("Gap of covariances", report.moments.covariance, f"average {report.moments.average_covariance:.4g}"),
    ]
    return shown


def bound_rows(report: "TransferReport") -> list[Row]:
    """Bounds on the transfer from the sources to any target in their convex hull."""
    b, K = report.bounds, len(report.names)
    share = f"{K - 1}/{K}"
    rows = [
        Row("abstract centre, one-sided", b.center_one_sided, "½ max T"),
        Row("abstract centre, symmetric", b.center_symmetric, "½ max T, both directions"),
        Row("abstract centre, realizable", b.center_realizable, "½ max Tʳ"),
        Row("balanced mixture, one-sided", b.mixture_one_sided, f"{share} max T + {b.gap:.4g}, the gap of the optima"),
        Row("balanced mixture, symmetric", b.mixture_symmetric, f"{share} max T, both directions, + gap of the optima"),
        Row("balanced mixture, realizable", b.mixture_realizable, f"{share} max Tʳ"),
    ]
    for r in report.distances:
        full = report.taylor[r, "full"]
        rows.append(Row(f"Taylor, order {r}", full.center, f"with its remainder {full.center_with_remainder:.4g}"))
        rows.append(Row(f"Taylor, order {r}, g-form", report.taylor[r, "g"].center, "first term 2·radius·g"))
        if r > 1:
            remark = "only where one head is optimal for every domain"
            rows.append(Row(f"Taylor, order {r}, under IRM", report.taylor[r, "irm"].center, remark))
    return rows


def target_rows(report: "TransferReport") -> list[Row]:
    """Losses of a labelled target and the bounds on them."""
    t = report.target
    if t is None:
        return []
    verdict = "holds" if t.loss <= t.hull_bound else "fails: outside the hull, or a supremum was missed"
    return [
        Row("target's loss", t.loss, f"its best {t.minimum:.4g}"),
        Row("sources' loss", t.source_loss, f"balanced mixture, its best {t.source_minimum:.4g}"),
        Row("measured transfer", t.transfer, "from the balanced mixture to the target"),
        Row("bound, transfer measured", t.bound, "L_S + L_T* − L_S* + T(S‖T)"),
        Row("bound, target in the hull", t.hull_bound, f"with the balanced-mixture bound; {verdict}"),
    ]


def headline(report: "TransferReport") -> str:
    """The worst pair in one sentence."""
    source, target = report.worst_pair
    largest = report.measures.one_sided[report.names.index(source), report.names.index(target)]
    if abs(largest) < 1e-12:
        return "No pair of domains differs: over the ball every transfer measure is zero to rounding."
    return (
        f"Worst pair: from '{source}' to '{target}' (one-sided measure {largest:.4g}): a head "
        f"of the ball can be that much further from the best on '{target}' than it is on '{source}'."
    )


def subtitle(report: "TransferReport") -> str:
    """What was measured, on what, with which settings."""
    losses = report.losses
    rows, columns = losses.features.shape
    kinds = f", {len(losses.classes)} classes" if losses.classes else ""
    return (
        f"{len(report.names)} domains, {rows} rows, {columns} features{kinds}; loss {losses.loss}, l2 = {losses.l2:g}, "
        f"radius = {report.measures.radius:g}."
    )


def pair_columns(report: "TransferReport") -> dict[str, list[Any]]:
    """Columns of the data frame: one entry for each ordered pair of different domains."""
    number = len(report.names)
    pairs = [(i, j) for i in range(number) for j in range(number) if i != j]
    columns: dict[str, list[Any]] = {
        "source": [report.names[i] for i, _ in pairs],
        "target": [report.names[j] for _, j in pairs],
    }
    measures = report.measures
    found: dict[str, Floats] = {
        "one_sided": measures.one_sided,
        "symmetric": measures.symmetric,
        "realizable": measures.realizable,
    }
    for r, distances in report.distances.items():
        name = TERMS[r]
        found[f"{name}_distance"] = distances.plain
        found[f"{name}_unbiased_square"] = distances.unbiased_squares
        found[f"{name}_square_low"], found[f"{name}_square_high"] = distances.low, distances.high
    for r in report.distances:
        bound = report.taylor[r, "full"]
        found[f"taylor_{r}"], found[f"taylor_{r}_remainder"] = bound.pairs, bound.remainder
    found["mean_gap"], found["covariance_gap"] = report.moments.mean, report.moments.covariance
    for name, matrix in found.items():
        columns[name] = [float(np.asarray(matrix)[pair]) for pair in pairs]
    return columns
