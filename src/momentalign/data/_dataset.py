"""What every data set of this package is: named domains with named splits."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Split:
    """Inputs and targets that belong together, row by row.

    Args:
        inputs: What the encoder receives, shape (n, ...).
        targets: Class indices, shape (n,).
    """

    inputs: Tensor
    targets: Tensor

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.targets):
            rows, found = len(self.inputs), len(self.targets)
            raise ValueError(f"'targets' should have one entry per row of 'inputs' ({rows}), but has {found}.")

    def __len__(self) -> int:
        return len(self.targets)

    def rows(self, indices: Tensor) -> "Split":
        """Select rows, in the given order and as often as they are named.

        Args:
            indices: Row numbers, shape (m,).

        Returns:
            The selected rows, m of them.
        """
        return Split(self.inputs[indices], self.targets[indices])

    def __repr__(self) -> str:
        return f"Split({len(self)} rows of shape {tuple(self.inputs.shape[1:])})"


@dataclass(frozen=True, eq=False)
class DomainDataset:
    """Named domains, each a mapping from the names of its splits to their rows.

    Args:
        name: What the data set is called on the command line and in tables.
        num_classes: Number of classes, the same in all domains.
        domains: Splits by name, for each domain by name. The order of the domains is the order of table columns.

    Example:
        >>> import torch
        >>> rows = Split(torch.zeros(4, 3), torch.tensor([0, 1, 0, 1]))
        >>> hospitals = DomainDataset("hospitals", 2, {"Zurich": {"in": rows}, "Budapest": {"in": rows}})
        >>> hospitals.names
        ('Zurich', 'Budapest')
        >>> hospitals.split("Zurich", "in")
        Split(4 rows of shape (3,))
    """

    name: str
    num_classes: int
    domains: Mapping[str, Mapping[str, Split]]

    @property
    def names(self) -> tuple[str, ...]:
        """The domains' names, in order."""
        return tuple(self.domains)

    def split(self, domain: str, split: str) -> Split:
        """Rows of one split of one domain.

        Args:
            domain: Name of the domain.
            split: Name of the split, for instance "in" or "out".

        Returns:
            The rows.

        Raises:
            ValueError: If the data set has no such domain, or the domain no such split.
        """
        if domain not in self.domains:
            raise ValueError(f"{self.name} has no domain {domain!r}. Domains found: {', '.join(self.domains)}.")
        if split not in self.domains[domain]:
            found = ", ".join(self.domains[domain])
            raise ValueError(f"Domain {domain!r} of {self.name} has no split {split!r}. Splits found: {found}.")
        return self.domains[domain][split]

    def __repr__(self) -> str:
        sizes = ", ".join(
            f"{name}: " + " + ".join(f"{len(rows)} {split}" for split, rows in splits.items())
            for name, splits in self.domains.items()
        )
        return f"{type(self).__name__}({self.name!r}, {self.num_classes} classes; {sizes})"
