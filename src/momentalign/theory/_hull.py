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
from scipy.linalg import block_diag

from momentalign._format import join_names
from momentalign._types import Array
from momentalign._validation import check_count
from momentalign.theory._distances import draw_rows, resampled_counts
from momentalign.theory._losses import DomainLosses
from momentalign.theory._pareto import Combination, smallest_combination

_LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class HullCheck:
    """The mixture of sources closest to a target sample, and whether the residual could be sampling noise.

    Attributes:
        names: Names of the sources.
        weights: Weights of the closest mixture, shape (K,).
        residual: Distance between the target's moments and the mixture's.
        noise: What 95% of the residuals of samples of this size from that mixture stay below.
        p_value: Share of such samples with a residual at least as large.
        labelled: Whether labels were used.
    """

    names: tuple[str, ...]
    weights: Array
    residual: float
    noise: float
    p_value: float
    labelled: bool

    @property
    def tenable(self) -> bool:
        """Whether the residual is within sampling noise."""
        return self.residual <= self.noise

    def __str__(self) -> str:
        parts = [
            f"{name} {weight:.2f}" for name, weight in zip(self.names, self.weights, strict=True) if weight > 0.005
        ]
        return (
            f"By the averages and spreads of its {'features and labels' if self.labelled else 'features'} the target "
            f"{'could be' if self.tenable else 'is not'} a mixture of the sources (p = {self.p_value:.2g}; residual "
            f"{self.residual:.3g}, {self.noise:.3g} by chance). Closest mixture: {join_names(parts)}."
        )


def hull_check(losses: DomainLosses, target: Any, target_labels: Any = None, *, resamples: int = 200) -> HullCheck:
    """Find the mixture of the sources closest to a target sample, and compare the residual with sampling noise.

    The criterion is a bootstrap under the assumption: as many rows as the target has are drawn from the closest
    mixture, every source is resampled, and the program is solved again. The assumption is tenable while the target's
    residual is below 95% of these. It is necessary only: other moments may differ, and a small target sample has
    little power. Of more than 4,000 source rows equal shares are drawn, and at most one such share of the target.

    Args:
        target: Features of the target, shape (m, d).
        target_labels: Its labels, shape (m,), if known.
        resamples: Bootstrap resamples; at least 20.
    """
    check_count("resamples", resamples, 20)
    features, labels = losses.encode(target, target_labels)
    rng = np.random.default_rng(0)
    number = len(losses)
    drawn = [draw_rows(losses.domains == e, number, rng) for e in range(number)]
    kept = draw_rows(torch.ones(len(features)), number, rng)
    sizes, chosen, sources = [*map(len, drawn)], np.concatenate(drawn), sum(map(len, drawn))
    all_rows, own = losses.features, features[kept]
    if labels is not None and not losses.classes:
        all_rows, own = torch.cat([all_rows, losses.targets], 1), torch.cat([own, labels[kept]], 1)
    center, scale = all_rows.mean(0), all_rows.std(0, correction=0)
    # A column that is constant over the sources would make any target infinitely far: it keeps its own units.
    scale = torch.where(scale > 1e-12 * (1 + center.abs()), scale, 1.0)
    rows = (torch.cat([all_rows[chosen], own]) - center) / scale
    gram = (1 + rows @ rows.T / rows.shape[1]).square()
    if labels is not None and losses.classes:
        classes = torch.cat([losses.targets[chosen], labels[kept]])
        gram *= classes[:, None] == classes
    inner = gram.numpy()
    means = [np.full((size, 1), 1 / size) for size in (*sizes, len(kept))]
    weights, residual = _closest(inner, block_diag(*means))
    # Under the assumption a target is drawn from the mixture of the sources.
    targets = rng.multinomial(len(kept), np.repeat(weights / sizes, sizes), resamples).T / len(kept)
    counts = [resampled_counts(size, resamples, rng) / size for size in sizes]
    replicates = np.array(
        [
            _closest(inner[:sources, :sources], np.column_stack([block_diag(*[c[:, [b]] for c in counts]), drawn])).norm
            for b, drawn in enumerate(targets.T)
        ]
    )
    noise = float(np.quantile(replicates, _LEVEL))
    p_value = (1 + (replicates >= residual).sum().item()) / (1 + resamples)
    return HullCheck(losses.names, weights, residual, noise, p_value, labels is not None)


def _closest(inner: Array, means: Array) -> Combination:
    """The mixture of means of rows closest to the last of these means, by the inner products of the rows."""
    gram = means.T @ inner @ means
    cross = gram[:-1, -1]
    return smallest_combination(gram[:-1, :-1] - cross[:, None] - cross + gram[-1, -1])
