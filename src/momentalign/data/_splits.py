"""In/out splits of the DomainBed protocol, so that a trial here holds out the rows a trial there does."""

from collections.abc import Mapping

import torch
from torch import Tensor

from momentalign._seeds import holdout_rows
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
    inside, outside = holdout_rows(n, trial, domain, fraction=fraction)
    return torch.from_numpy(inside), torch.from_numpy(outside)


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
