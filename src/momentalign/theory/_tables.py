"""Contents of a transfer report, shared by its text, data frame and page."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from momentalign._types import Array
from momentalign.penalties import term_name
from momentalign.theory._bounds import TargetErrors

if TYPE_CHECKING:
    from momentalign.theory._report import TransferReport

_PLURALS = {1: "gradients", 2: "Hessians", 3: "third derivatives", 4: "fourth derivatives"}


class DomainMatrix(NamedTuple):
    """A titled matrix between domains."""

    title: str
    values: Array
    remark: str
    intervals: tuple[Array, Array] | None = None


class Quantity(NamedTuple):
    """A named number with a remark."""

    name: str
    value: float
    remark: str


def domain_rows(report: "TransferReport") -> list[list[str]]:
    """Name, rows, loss, smallest loss, gradient norm and weight in the mixture of each domain at the centre."""
    pareto = report.pareto
    numbers = np.column_stack([report.values, report.measures.minima, pareto.gradient_norms, pareto.weights])
    return [
        [name, str(rows), *(f"{value:.4g}" for value in own)]
        for name, rows, own in zip(report.names, report.losses.counts.tolist(), numbers.tolist(), strict=True)
    ]


def domain_matrices(report: "TransferReport") -> list[DomainMatrix]:
    """All matrices between domains, in display order."""
    measures, N = report.measures, report.order
    how = "exact" if measures.exact else "lower estimates"
    shown = [
        DomainMatrix("One-sided transfer measure", measures.one_sided, f"sup of (L_j − L_j*) − (L_i − L_i*); {how}"),
        DomainMatrix("Symmetric transfer measure", measures.symmetric, f"the larger of both directions; {how}"),
        DomainMatrix("Realizable transfer measure", measures.realizable, f"sup of |L_i − L_j|; {how}"),
    ]
    for r, distances in report.distances.items():
        plural = _PLURALS.get(r, f"derivatives of order {r}")
        shown.append(DomainMatrix(f"Distance of {plural}", distances.plain, "of these samples, noise included"))
        remark = f"root of the unbiased square with {distances.level:.0%} interval; 0 where noise outweighs distance"
        shown.append(DomainMatrix(f"Distance of {plural}, unbiased", distances.unbiased, remark, distances.intervals))
    bound, gaps = report.taylor[N, "full"].pairs, report.moments
    return [
        *shown,
        DomainMatrix(f"Taylor bound of order {N}", bound, "on the one-sided measure, without the remainder"),
        DomainMatrix("Gap of feature means", gaps.mean, f"average {gaps.average_mean:.4g}"),
        DomainMatrix("Gap of covariances", gaps.covariance, f"average {gaps.average_covariance:.4g}"),
    ]


def bound_rows(report: "TransferReport") -> list[Quantity]:
    """Bounds on the transfer from the sources to any target in their convex hull."""
    b, K = report.bounds, len(report.names)
    share = f"{K - 1}/{K}"
    rows = [
        Quantity(
            "balanced mixture, one-sided", b.mixture_one_sided, f"{share} max T + {b.gap:.4g} (gap of the optima)"
        ),
        Quantity("balanced mixture, symmetric", b.mixture_symmetric, f"{share} max T, both directions, + gap"),
        Quantity("balanced mixture, realizable", b.mixture_realizable, f"{share} max Tʳ"),
        Quantity("midpoint of the gaps, one-sided", b.midpoint_one_sided, "½ max T; (max + min)/2, no distribution"),
        Quantity("midpoint of the gaps, symmetric", b.midpoint_symmetric, "½ max T, both directions"),
        Quantity("midpoint of the losses, realizable", b.midpoint_realizable, "½ max Tʳ"),
    ]
    for r in report.distances:
        full, g, irm = (report.taylor[r, form] for form in ("full", "g", "irm"))
        remark = f"balanced mixture; with remainder {full.mixture(b.gap, remainder=True):.4g}"
        rows.append(Quantity(f"Taylor, order {r}", full.mixture(b.gap), remark))
        rows.append(Quantity(f"Taylor, order {r}, midpoint", full.midpoint(), "½ max over pairs"))
        rows.append(Quantity(f"Taylor, order {r}, g-form", g.mixture(b.gap), "first term 2·radius·g"))
        if r > 1:
            remark = "only if one head is optimal for every domain"
            rows.append(Quantity(f"Taylor, order {r}, under IRM", irm.mixture(0.0), remark))
    return rows


def target_rows(t: TargetErrors) -> list[Quantity]:
    """Losses of a labelled target and the bounds on them."""
    verdict = "holds" if t.loss <= t.hull_bound else "fails: outside the hull, or the ascent missed a supremum"
    return [
        Quantity("target's loss", t.loss, f"its best {t.minimum:.4g}"),
        Quantity("sources' loss", t.source_loss, f"balanced mixture, its best {t.source_minimum:.4g}"),
        Quantity("measured transfer", t.transfer, "from the balanced mixture to the target"),
        Quantity("bound, transfer measured", t.bound, "L_S + L_T* − L_S* + T(S‖T)"),
        Quantity("bound, target in the hull", t.hull_bound, f"with the balanced-mixture bound; {verdict}"),
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
    """Data and settings in one sentence."""
    losses = report.losses
    rows, columns = losses.features.shape
    classes = f", {len(losses.classes)} classes" if losses.classes else ""
    return (
        f"{len(report.names)} domains, {rows} rows, {columns} features{classes}; loss {losses.loss}, "
        f"l2 = {losses.l2:g}, radius = {report.measures.radius:g}."
    )


def pair_columns(report: "TransferReport") -> dict[str, list[Any]]:
    """Columns of the data frame: one entry for each ordered pair of different domains."""
    number = len(report.names)
    pairs = [(i, j) for i in range(number) for j in range(number) if i != j]
    measures = report.measures
    matrices: dict[str, Array] = {
        "one_sided": measures.one_sided,
        "symmetric": measures.symmetric,
        "realizable": measures.realizable,
    }
    for r, distances in report.distances.items():
        name = term_name(r)
        matrices[f"{name}_distance"] = distances.plain
        matrices[f"{name}_unbiased_square"] = distances.unbiased_squares
        matrices[f"{name}_square_low"], matrices[f"{name}_square_high"] = distances.low, distances.high
    for r in report.distances:
        bound = report.taylor[r, "full"]
        matrices[f"taylor_{r}"], matrices[f"taylor_{r}_remainder"] = bound.pairs, bound.remainder
    matrices["mean_gap"], matrices["covariance_gap"] = report.moments.mean, report.moments.covariance
    columns: dict[str, list[Any]] = {
        "source": [report.names[i] for i, _ in pairs],
        "target": [report.names[j] for _, j in pairs],
    }
    return columns | {name: [float(matrix[pair]) for pair in pairs] for name, matrix in matrices.items()}
