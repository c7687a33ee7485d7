"""What a recipe needs that is not here."""

from dataclasses import dataclass
from pathlib import Path

from momentalign.data import dataset_path, is_complete
from momentalign.data._sources import EMBEDDED, find_source
from momentalign.reproduce._kinds import CostRecipe, Recipe


@dataclass(frozen=True)
class Missing:
    """A data set that is not here.

    Args:
        dataset: Its name.
        command: Fetches it.
        gigabytes: To download.
        folder: Where it would lie.
    """

    dataset: str
    command: str
    gigabytes: float
    folder: Path

    def __str__(self) -> str:
        return (
            f"{self.dataset} is not here ({self.gigabytes:.3g} GB). Fetch it with: {self.command} (or put it at "
            f"{self.folder})"
        )


def missing_data(recipe: Recipe, root: str | Path | None = None) -> list[Missing]:
    """Data sets of a recipe that are not in the data folder.

    Args:
        recipe: What is to be run.
        root: Data folder; see :func:`momentalign.data.data_folder`.

    Returns:
        One entry a data set, with the command that fetches it.
    """
    if isinstance(recipe, CostRecipe):
        return []
    found = []
    for name in recipe.datasets:
        if name not in EMBEDDED and not is_complete(name, root):
            source, about = find_source(name)
            where = f" --root {root}" if root is not None else ""
            found.append(
                Missing(name, f"momentalign data fetch {source}{where}", about.gigabytes, dataset_path(name, root))
            )
    return found
