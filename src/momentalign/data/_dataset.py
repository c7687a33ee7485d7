"""Data sets with named domains, named splits and optional groups."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from momentalign._seeds import holdout_rows
from momentalign._validation import check_choice, check_count
from momentalign.data._items import ImageFiles, Items, Texts

TRAINING_RECIPES = ("mnist", "digits", "image", "text", "table")
"""Kinds of data set, which learning rate, batch size and the like depend on."""

_SMALL = 64
"""Largest side, in pixels, of colour images that count as small."""


@dataclass(frozen=True, eq=False)
class Split:
    """Inputs and targets that belong together, row by row.

    Args:
        inputs: Input of the encoder, shape (n, ...), or n :class:`Items` to read.
        targets: Class indices, or numbers for a regression, shape (n,).
        groups: Group indices, shape (n,), if any.
    """

    inputs: Tensor | Items
    targets: Tensor
    groups: Tensor | None = None

    def __post_init__(self) -> None:
        rows = len(self.inputs)
        for name, column in (("targets", self.targets), ("groups", self.groups)):
            if column is not None and len(column) != rows:
                raise ValueError(f"'{name}' should have one entry per row of 'inputs' ({rows}), but has {len(column)}.")

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def tensor(self) -> Tensor:
        """The inputs as a tensor; TypeError if they are items."""
        if isinstance(self.inputs, Items):
            raise TypeError(
                f"'inputs' should be a tensor, but is {self.inputs}. An encoder's preprocessing turns it into one."
            )
        return self.inputs

    def rows(self, indices: Tensor) -> "Split":
        """Select rows by number, shape (m,), in the given order and with repetitions."""
        inputs = self.inputs.rows(indices) if isinstance(self.inputs, Items) else self.inputs[indices]
        return Split(inputs, self.targets[indices], None if self.groups is None else self.groups[indices])

    def to(self, device: torch.device | str) -> "Split":
        """Move the tensors to a device; items stay on the host."""
        inputs = self.inputs if isinstance(self.inputs, Items) else self.inputs.to(device)
        groups = None if self.groups is None else self.groups.to(device)
        return Split(inputs, self.targets.to(device), groups)

    def __repr__(self) -> str:
        inputs = self.inputs
        what = type(inputs).__name__ if isinstance(inputs, Items) else f"rows of shape {tuple(inputs.shape[1:])}"
        return f"Split({len(self)} {what})"


class DomainDataset:
    """Named domains, each a mapping from the names of its splits to their rows.

    Args:
        name: On the command line and in tables.
        num_classes: Number of classes, the same in all domains; 1 for a regression.
        domains: Splits by name, for each domain by name. The order of the domains is the order of table columns.
        classes: Names of the classes; "0", "1", ... if not given.
        group_names: Names of the groups, if rows have groups.
        training_recipe: Defaults of search and training loop: "mnist", "digits", "image", "text" or "table". By default
            chosen by the inputs: "mnist" for small images, "image" for image files and for colour images as tensors
            with a side of more than 64 pixels, "text" for texts, "table" for rows of numbers.
        notes: What was done to the rows, one sentence each.

    Attributes:
        recipe_is_chosen: Whether `training_recipe` was given, and holds whatever encoder is trained.

    Example:
        >>> import torch
        >>> rows = Split(torch.zeros(4, 3), torch.tensor([0, 1, 0, 1]))
        >>> hospitals = DomainDataset("hospitals", 2, {"Zurich": {"in": rows}, "Budapest": {"in": rows}})
        >>> hospitals.names
        ('Zurich', 'Budapest')
        >>> hospitals.split("Zurich", "in")
        Split(4 rows of shape (3,))
        >>> hospitals.classes, hospitals.training_recipe
        (('0', '1'), 'table')
    """

    def __init__(
        self,
        name: str,
        num_classes: int,
        domains: Mapping[str, Mapping[str, Split]],
        classes: Sequence[str] | None = None,
        group_names: Sequence[str] | None = None,
        training_recipe: str | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        classes = tuple(str(k) for k in range(num_classes)) if classes is None else tuple(classes)
        if len(classes) != num_classes:
            raise ValueError(f"'classes' should have {num_classes} names, one a class, but has {len(classes)}.")
        self.recipe_is_chosen = training_recipe is not None
        self.training_recipe = check_choice("training_recipe", training_recipe or _recipe(domains), TRAINING_RECIPES)
        self.name, self.num_classes, self.domains = name, num_classes, domains
        self.classes = classes
        self.group_names = None if group_names is None else tuple(group_names)
        self.notes = tuple(notes)

    @property
    def names(self) -> tuple[str, ...]:
        """The domains' names, in order."""
        return tuple(self.domains)

    @property
    def image_side(self) -> int | None:
        """Larger side in pixels of the domains' first image files; None for other rows, or if one cannot be read."""
        return _image_side(self.domains)

    @property
    def split_names(self) -> tuple[str, ...]:
        """Names of the splits that any domain has, in order."""
        return tuple(dict.fromkeys(split for splits in self.domains.values() for split in splits))

    @property
    def training_split(self) -> str:
        """Name of the split to train on: "in", or "train" where splits were published with the data."""
        return "train" if "train" in self.split_names else "in"

    @property
    def validation_split(self) -> str:
        """Name of the split that is held out of the training domains: "out" or "val"."""
        return "val" if "val" in self.split_names else "out"

    @property
    def is_regression(self) -> bool:
        """Whether the targets are numbers rather than classes."""
        return any(rows.targets.is_floating_point() for splits in self.domains.values() for rows in splits.values())

    def split(self, domain: str, split: str) -> Split:
        """Rows of one split of one domain; ValueError if there is no such domain or split."""
        if domain not in self.domains:
            raise ValueError(f"{self.name} has no domain {domain!r}. Domains found: {', '.join(self.domains)}.")
        if split not in self.domains[domain]:
            splits = ", ".join(self.domains[domain])
            raise ValueError(f"Domain {domain!r} of {self.name} has no split {split!r}. Splits found: {splits}.")
        return self.domains[domain][split]

    def map_splits(self, change: Callable[[Split], Split]) -> "DomainDataset":
        """The same data set with changed rows, split by split."""
        other = copy(self)
        other.domains = {
            domain: {split: change(rows) for split, rows in splits.items()} for domain, splits in self.domains.items()
        }
        return other

    def __repr__(self) -> str:
        sizes = ", ".join(
            f"{name}: " + " + ".join(f"{len(rows)} {split}" for split, rows in splits.items())
            for name, splits in self.domains.items()
        )
        return f"{type(self).__name__}({self.name!r}, {self.num_classes} classes; {sizes})"


def _recipe(domains: Mapping[str, Mapping[str, Split]]) -> str:
    inputs = next((rows.inputs for splits in domains.values() for rows in splits.values()), None)
    if isinstance(inputs, ImageFiles):
        side = _image_side(domains)
        return "image" if side is None or side > _SMALL else "mnist"
    if isinstance(inputs, Texts):
        return "text"
    if not isinstance(inputs, Tensor) or inputs.ndim != 4:
        return "table"
    # Pretrained encoders take three channels; images of one or two can only be for a small network.
    return "image" if inputs.shape[1] == 3 and max(inputs.shape[2:]) > _SMALL else "mnist"


def _image_side(domains: Mapping[str, Mapping[str, Split]]) -> int | None:
    """Larger side of the first file of each domain by name, which does not depend on the split."""
    sides: list[int | None] = []
    for splits in domains.values():
        files = [rows.inputs for rows in splits.values() if isinstance(rows.inputs, ImageFiles) and len(rows)]
        firsts = [(min(range(len(part)), key=part.names.__getitem__), part) for part in files]
        if firsts:
            index, part = min(firsts, key=lambda first: first[1].names[first[0]])
            sides.append(part.side(index))
    known = [side for side in sides if side is not None]
    return max(known) if known and len(known) == len(sides) else None


def holdout_indices(n: int, trial: int, domain: int, *, fraction: float = 0.2) -> tuple[Tensor, Tensor]:
    """Row numbers of a domain's "in" and "out" split, the same as in the DomainBed protocol.

    Args:
        n: Number of rows of the domain.
        trial: The trial's seed.
        domain: Index of the domain in its data set.
        fraction: Share of the rows to hold out, rounded down.
    """
    inside, outside = holdout_rows(n, check_count("trial", trial, 0), domain, fraction=fraction)
    return torch.from_numpy(inside), torch.from_numpy(outside)


def split_in_out(
    domains: Mapping[str, Split], trial: int, *, fraction: float = 0.2, copies: int = 1
) -> dict[str, dict[str, Split]]:
    """Divide every domain into its "in" and "out" split.

    Args:
        domains: All rows of each domain, by name; a domain's index seeds its shuffle.
        trial: The trial's seed.
        fraction: Share of each domain to hold out.
        copies: Number of successive rows that show the same item and stay together.
    """
    check_count("copies", copies, 1)
    divided = {}
    for index, (name, rows) in enumerate(domains.items()):
        if len(rows) % copies:
            raise ValueError(
                f"Domain {name!r} should have a multiple of 'copies' ({copies}) rows, but has {len(rows)}."
            )
        items = holdout_indices(len(rows) // copies, trial, index, fraction=fraction)
        inside, outside = ((copies * part[:, None] + torch.arange(copies)).flatten() for part in items)
        divided[name] = {"in": rows.rows(inside), "out": rows.rows(outside)}
    return divided
