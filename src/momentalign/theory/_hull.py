r"""Does a target look like a mixture of the sources? The assumption of the many-source bounds, tested on a sample.

A mixture's raw moments are the mixture of the sources' raw moments. In features standardised by the sources, the
moments of order up to two, scaled to comparable size, are the mean of a feature map with the inner product
:math:`k(x, x') = (1 + x \cdot x'/d)^2`; labels multiply it by [y = y′], real outcomes join the features. The closest
mixture is then a quadratic program over the simplex in Gram matrices.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from momentalign._types import Array
from momentalign._validation import check_count
from momentalign.theory._distances import resampled_counts, rows_by_domain, rows_per_domain
from momentalign.theory._inputs import as_features, check_level
from momentalign.theory._losses import DomainLosses
from momentalign.theory._pareto import smallest_combination


@dataclass(frozen=True, eq=False)
class HullCheck:
    """The mixture of sources closest to a target sample, and whether the residual could be sampling noise.

    Attributes:
        names: Names of the sources.
        weights: Weights of the closest mixture, shape (K,).
        residual: Distance between the target's moments and the mixture's.
        noise: Quantile, at the given level, of the residual of samples of this size from that mixture.
        p_value: Share of such samples with a residual at least as large.
        scale: Root mean square distance of the sources' moments from their mean, as a unit for the residual.
        rows: Target rows used.
        labelled: Whether labels were used.
        level: Level of `noise`.
    """

    names: tuple[str, ...]
    weights: Array
    residual: float
    noise: float
    p_value: float
    scale: float
    rows: int
    labelled: bool
    level: float

    @property
    def tenable(self) -> bool:
        """Whether the residual is within sampling noise."""
        return self.residual <= self.noise

    @property
    def sentence(self) -> str:
        """The result as a sentence."""
        what = "features and labels" if self.labelled else "features"
        numbers = (
            f"residual {self.residual:.3g}; {self.level:.0%} of samples of {self.rows} rows from the closest mixture "
            f"stay below {self.noise:.3g}"
        )
        if not self.tenable:
            return (
                f"The target's {what} do not look like a mixture of the sources ({numbers}): the many-source bounds "
                "need not hold for it."
            )
        blind = "" if self.labelled else " Without labels a change of the classes given the features goes undetected."
        return (
            f"The target's {what} look like a mixture of the sources ({numbers}): the bounds' assumption is tenable, "
            f"judging by first and second moments.{blind}"
        )

    def __str__(self) -> str:
        mixture = ", ".join(f"{name} {weight:.2f}" for name, weight in zip(self.names, self.weights, strict=True))
        return f"{self.sentence}\nClosest mixture: {mixture}."


def hull_check(
    losses: DomainLosses,
    target: Any,
    target_labels: Any = None,
    *,
    level: float = 0.95,
    resamples: int = 200,
    max_rows: int = 4000,
    seed: int = 0,
) -> HullCheck:
    """Find the mixture of the sources closest to a target sample, and compare the residual with sampling noise.

    The criterion is a bootstrap under the assumption: as many rows as the target has are drawn from the closest
    mixture, every source is resampled, and the program is solved again. The assumption is tenable while the target's
    residual is within the given quantile of these. It is necessary only: other moments may differ, and a small target
    sample has little power.

    Args:
        target: Features of the target, shape (m, d).
        target_labels: Its labels, shape (m,), if known.
        level: Quantile of the noise beyond which the assumption is rejected.
        resamples: Bootstrap resamples; at least 20.
        max_rows: Rows used of all sources together, drawn in equal shares; the target is limited to one such share.
    """
    check_level(level)
    check_count("resamples", resamples, 20)
    check_count("max_rows", max_rows, 1)
    rows = as_features("target", target, losses.features.shape[1])
    labels = None
    if target_labels is not None:
        labels = losses.encode_targets("target_labels", target_labels, len(rows), "target")
    rng = np.random.default_rng(seed)
    number = len(losses)
    most = rows_per_domain(max_rows, number)
    drawn = rows_by_domain(losses.domains, number, most, rng)
    kept = rows_by_domain(torch.zeros(len(rows), dtype=torch.long), 1, most, rng)[0]
    sources = np.concatenate(drawn)
    kernel = _Kernel(losses, labels is not None)
    S = kernel.prepare(losses.features[sources], losses.targets[sources])
    T = kernel.prepare(rows[kept], None if labels is None else labels[kept])
    sizes = [len(own) for own in drawn]
    member = torch.block_diag(*[torch.full((size, 1), 1 / size, dtype=torch.float64) for size in sizes])
    inner = kernel(S, S)
    gram = member.T @ inner @ member
    cross = (member.T @ kernel(S, T)).mean(1)
    weights, residual = smallest_combination(_offsets(gram, cross, kernel(T, T).mean()))
    replicates = _null_residuals(inner, sizes, len(kept), weights, resamples, rng)
    center = gram.diagonal().mean() - gram.mean()
    return HullCheck(
        losses.names,
        weights,
        residual,
        float(np.quantile(replicates, level)),
        float((1 + (replicates >= residual).sum()) / (1 + resamples)),
        float(center.clamp(min=0).sqrt()),
        len(kept),
        labels is not None,
        level,
    )


class _Kernel:
    """Inner product of second-order feature maps, in units of the sources' pooled standard deviations."""

    def __init__(self, losses: DomainLosses, labelled: bool) -> None:
        self.classes = labelled and losses.loss != "squared_error"
        self.outcomes = labelled and losses.loss == "squared_error"
        columns = self._columns(losses.features, losses.targets)
        self.center = columns.mean(0)
        deviation = (columns - self.center).square().mean(0).sqrt()
        # A column that is constant over the sources would make any target infinitely far: it keeps its own units.
        self.scale = torch.where(deviation > 1e-12 * (1 + self.center.abs()), deviation, 1.0)

    def _columns(self, features: Tensor, targets: Tensor | None) -> Tensor:
        return torch.cat([features, targets], 1) if self.outcomes and targets is not None else features

    def prepare(self, features: Tensor, targets: Tensor | None) -> tuple[Tensor, Tensor | None]:
        columns = (self._columns(features, targets) - self.center) / self.scale
        return columns / columns.shape[1] ** 0.5, targets if self.classes else None

    def __call__(self, left: tuple[Tensor, Tensor | None], right: tuple[Tensor, Tensor | None]) -> Tensor:
        products = (1 + left[0] @ right[0].T).square()
        if left[1] is None or right[1] is None:
            return products
        return products * (left[1][:, None] == right[1])


def _offsets(gram: Tensor, cross: Tensor, own: Tensor) -> Tensor:
    """Inner products of the sources' offsets from the target, ⟨m_e − t, m_f − t⟩."""
    return gram - cross[:, None] - cross + own


def _null_residuals(
    inner: Tensor, sizes: list[int], rows: int, weights: Array, resamples: int, rng: np.random.Generator
) -> Array:
    """Residuals of targets resampled from the mixture, with every source resampled too."""
    probabilities = np.concatenate([np.full(size, w / size) for size, w in zip(sizes, weights, strict=True)])
    targets = torch.from_numpy(rng.multinomial(rows, probabilities, resamples).T / rows)
    counts = [resampled_counts(size, resamples, rng) / size for size in sizes]
    residuals = []
    for b in range(resamples):
        A = torch.block_diag(*[own[:, b : b + 1] for own in counts])
        A = torch.cat([A, targets[:, b : b + 1]], 1)
        gram = A.T @ inner @ A
        residuals.append(smallest_combination(_offsets(gram[:-1, :-1], gram[:-1, -1], gram[-1, -1])).norm)
    return np.array(residuals)
