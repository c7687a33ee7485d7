"""Rows that are no tensors yet: image files to decode, sentences to tokenise."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from momentalign._extras import require


class Items(ABC):
    """Rows of a data set that an encoder's preprocessing turns into tensors.

    Attributes:
        names: What each row is called in files and messages, n of them.
        kind: What the rows are, as people say it.
    """

    names: list[str]
    kind: str

    def __len__(self) -> int:
        return len(self.names)

    @abstractmethod
    def rows(self, indices: Tensor) -> Self:
        """Select rows, in the given order and as often as they are named.

        Args:
            indices: Row numbers, shape (m,).

        Returns:
            The selected rows, m of them.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)})"


class ImageFiles(Items):
    """Images on disk, decoded one at a time when they are needed.

    Args:
        paths: Files, each below `root`.
        root: Folder that the names are relative to.

    Attributes:
        root: The folder.
    """

    kind = "image files"

    def __init__(self, paths: Sequence[Path], root: Path) -> None:
        self.root = Path(root)
        self.names = [path.relative_to(self.root).as_posix() for path in paths]

    @classmethod
    def from_names(cls, names: Sequence[str], root: Path) -> Self:
        """The same from names, which for many files is much faster than from paths.

        Args:
            names: Paths relative to `root`, with forward slashes.
            root: Folder that the names are relative to.

        Returns:
            The files.
        """
        files = cls([], root)
        files.names = list(names)
        return files

    def rows(self, indices: Tensor) -> Self:
        """Select files, in the given order and as often as they are named.

        Args:
            indices: Row numbers, shape (m,).

        Returns:
            The selected files, m of them.
        """
        return self.from_names([self.names[index] for index in indices.tolist()], self.root)

    def decode(self, index: int, size: int) -> Tensor:
        """Read one image as RGB and resize it, both sides, bilinearly.

        Args:
            index: Row number.
            size: Height and width of the result.

        Returns:
            Bytes, shape (3, size, size).
        """
        path = self.root / self.names[index]
        image = _open(path)
        with image:
            try:
                if image.mode == "P" and "transparency" in image.info:
                    image = image.convert("RGBA")
                image = image.convert("RGB")
            except Exception as error:
                raise _unreadable(path, error) from None
            resized = image.resize((size, size), resample=_pillow().Resampling.BILINEAR)
        return torch.from_numpy(np.array(resized)).permute(2, 0, 1).contiguous()

    def readable(self) -> Tensor:
        """Decode every file, a few at a time.

        Returns:
            Row numbers of those that can be decoded.
        """
        _pillow()  # says what to install before every file looks bad for want of it
        with ThreadPoolExecutor() as pool:  # the decoders run outside of Python's lock
            good = list(pool.map(self._is_readable, range(len(self))))
        return torch.tensor(good, dtype=torch.bool).nonzero().squeeze(1)

    def _is_readable(self, index: int) -> bool:
        try:
            with _open(self.root / self.names[index]) as image:
                image.draft("RGB", (32, 32))  # JPEG only: all of the file is read, but few pixels computed
                image.load()
        except Exception:
            return False
        return True


class Texts(Items):
    """Sentences, or pairs of sentences.

    Args:
        first: The sentences.
        second: Each sentence's partner, if there are pairs.
        names: Identifiers; the positions if not given.
    """

    kind = "texts"

    def __init__(
        self, first: Sequence[str], second: Sequence[str] | None = None, names: Sequence[str] | None = None
    ) -> None:
        self.first = list(first)
        self.second = None if second is None else list(second)
        self.names = [str(k) for k in range(len(self.first))] if names is None else list(names)
        for name, column in (("second", self.second), ("names", self.names)):
            if column is not None and len(column) != len(self.first):
                n = len(self.first)
                raise ValueError(f"'{name}' should have one entry per sentence ({n}), but has {len(column)}.")

    def rows(self, indices: Tensor) -> Self:
        """Select sentences or pairs, in the given order and as often as they are named.

        Args:
            indices: Row numbers, shape (m,).

        Returns:
            The selected sentences, m of them.
        """
        order = indices.tolist()
        second = None if self.second is None else [self.second[index] for index in order]
        return type(self)([self.first[index] for index in order], second, [self.names[index] for index in order])


def _open(path: Path) -> Any:
    pillow = _pillow()
    try:
        return pillow.open(path)
    except Exception as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> ValueError:
    missing = isinstance(error, FileNotFoundError)
    found = "does not exist" if missing else f"cannot be read ({type(error).__name__}: {error})"
    remedy = "Put it there" if missing else "Replace or remove it"
    return ValueError(
        f"{path} should be an image, but {found}. {remedy}, or leave such files out: with '--skip-bad-files' in a "
        "command, with skip_bad=True of load_dataset in Python."
    )


def _pillow() -> Any:
    return require("PIL.Image", "Image files need", extra="vision")
