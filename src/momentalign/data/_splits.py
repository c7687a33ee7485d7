"""In/out splits of the DomainBed protocol, so that a trial here holds out the rows a trial there does."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from momentalign._seeds import seed_hash
from momentalign.data._dataset import Split


def holdout_indices(n: int, trial: int, domain: int, *, fraction: float = 0.2) -> tuple[Tensor, Tensor]:
    """Which of a domain's rows a trial trains on and which it holds out.

    Args:
        n: Number of rows of the domain.
        trial: The trial's seed.
        domain: Position of the domain in its data set.
        fraction: Share of the rows to hold out, rounded down.

    Returns:
        Row numbers of the "in" and of the "out" split.

    Raises:
        ValueError: If the fraction is not in [0, 1].
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"'fraction' should be between 0 and 1, but is {fraction}.")
    order = np.arange(n)
    # RandomState rather than a Generator: its stream is frozen, and it is the one DomainBed shuffles with.
    np.random.RandomState(seed_hash(trial, domain)).shuffle(order)
    held_out = int(fraction * n)
    indices = torch.from_numpy(order)
    return indices[held_out:], indices[:held_out]


def split_in_out(domains: Mapping[str, Split], trial: int, *, fraction: float = 0.2) -> dict[str, dict[str, Split]]:
    """Divide every domain into its "in" and "out" split.

    Args:
        domains: All rows of each domain, by name; a domain's position seeds its shuffle.
        trial: The trial's seed.
        fraction: Share of each domain to hold out.

    Returns:
        For each domain its splits "in" and "out".
    """
    divided = {}
    for position, (name, rows) in enumerate(domains.items()):
        inside, outside = holdout_indices(len(rows), trial, position, fraction=fraction)
        divided[name] = {"in": rows.rows(inside), "out": rows.rows(outside)}
    return divided
