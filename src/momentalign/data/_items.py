"""Rows that are not tensors yet: image files to decode, texts to tokenise, table rows to encode."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from momentalign._extras import require

_T = TypeVar("_T")


class Items(ABC):
    """Rows of a data set that an encoder's preprocessing turns into tensors.

    Attributes:
        names: Names of the n rows in files and messages.
        kind: Kind of rows, for messages.
    """

    names: list[str]
    kind: str

    def __len__(self) -> int:
        return len(self.names)

    @abstractmethod
    def rows(self, indices: Tensor) -> Self:
        """Select rows by number, shape (m,), in the given order and with repetitions."""

    @classmethod
    @abstractmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenate one or more parts of the same kind."""

    def content(self) -> bytes:
        """Content of rows in memory, which identifies them besides their names."""
        return b""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)})"


class ImageFiles(Items):
    """Images on disk, decoded when needed.

    Args:
        paths: Files below `root`.
        root: Folder that the names are relative to.
    """

    kind = "image files"

    def __init__(self, paths: Sequence[Path], root: Path) -> None:
        self.root = Path(root)
        self.names = [path.relative_to(self.root).as_posix() for path in paths]

    @classmethod
    def from_names(cls, names: Sequence[str], root: Path) -> Self:
        """The same from paths relative to `root`, with forward slashes; much faster for many files."""
        files = cls([], root)
        files.names = list(names)
        return files

    def rows(self, indices: Tensor) -> Self:
        return self.from_names([self.names[index] for index in indices.tolist()], self.root)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenate files of one root."""
        return cls.from_names([name for part in parts for name in part.names], parts[0].root)

    def decode(self, index: int, size: int) -> Tensor:
        """Read one image as RGB and resize it bilinearly to uint8 of shape (3, size, size)."""
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

    def side(self, index: int) -> int | None:
        """Larger side of one image in pixels, from the head of its file; None if it cannot be read."""
        try:
            with _open(self.root / self.names[index]) as image:
                width, height = image.size
                return int(max(width, height))
        except (ValueError, ModuleNotFoundError):
            return None

    def decode_all(self, size: int) -> Tensor:
        """Decode every file in parallel, shape (n, 3, size, size)."""
        images = self._each(lambda index: self.decode(index, size))
        return torch.stack(images) if images else torch.empty(0, 3, size, size, dtype=torch.uint8)

    def readable(self) -> Tensor:
        """Decode every file in parallel; return the row numbers of those that can be decoded."""
        return torch.tensor(self._each(self._is_readable), dtype=torch.bool).nonzero().squeeze(1)

    def _each(self, function: Callable[[int], _T]) -> list[_T]:
        _pillow()  # a missing library should not make every file look bad
        with ThreadPoolExecutor() as pool:  # the decoders release the GIL
            return list(pool.map(function, range(len(self))))

    def _is_readable(self, index: int) -> bool:
        try:
            with _open(self.root / self.names[index]) as image:
                image.draft("RGB", (32, 32))  # JPEG only: reads the whole file but computes few pixels
                image.load()
        except Exception:
            return False
        return True


class Texts(Items):
    """Sentences, or pairs of sentences.

    Args:
        first: The sentences.
        second: Second sentences of pairs.
        names: Identifiers; by default the positions.
    """

    kind = "texts"

    def __init__(
        self, first: Sequence[str], second: Sequence[str] | None = None, names: Sequence[str] | None = None
    ) -> None:
        self.first = list(first)
        self.second = None if second is None else list(second)
        self.names = _names(names, len(first))
        if self.second is not None and len(self.second) != len(first):
            raise ValueError(f"'second' should have one entry per sentence ({len(first)}), but has {len(self.second)}.")

    def rows(self, indices: Tensor) -> Self:
        order = indices.tolist()
        second = None if self.second is None else [self.second[index] for index in order]
        return type(self)([self.first[index] for index in order], second, [self.names[index] for index in order])

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        second = None if parts[0].second is None else [text for part in parts for text in part.second or ()]
        names = [name for part in parts for name in part.names]
        return cls([text for part in parts for text in part.first], second, names)

    def content(self) -> bytes:
        """All sentences."""
        return "\0".join([*self.first, *(self.second or [])]).encode()


class TableRows(Items):
    """Rows of a table, which an encoder's preprocessing learns to encode from the training rows.

    Args:
        frame: Data frame of the features, n rows.
        names: Identifiers; by default the positions.
    """

    kind = "rows of a table"

    def __init__(self, frame: Any, names: Sequence[str] | None = None) -> None:
        self.frame = frame
        self.names = _names(names, len(frame))

    def rows(self, indices: Tensor) -> Self:
        order = indices.tolist()
        return type(self)(self.frame.iloc[order], [self.names[index] for index in order])

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        import pandas

        return cls(pandas.concat([part.frame for part in parts]), [name for part in parts for name in part.names])

    def content(self) -> bytes:
        """Names, types and hashed values of the columns."""
        import pandas

        kinds = "\0".join(f"{name}\0{kind}" for name, kind in self.frame.dtypes.items())
        values: bytes = pandas.util.hash_pandas_object(self.frame, index=False).to_numpy().tobytes()
        return kinds.encode() + values


def _names(names: Sequence[str] | None, number: int) -> list[str]:
    """Names of rows, by default their positions, which sort as the numbers do."""
    names = [f"{k:0{len(str(number))}d}" for k in range(number)] if names is None else list(names)
    if len(names) != number:
        raise ValueError(f"'names' should have one entry per row ({number}), but has {len(names)}.")
    return names


def _open(path: Path) -> Any:
    pillow = _pillow()
    try:
        return pillow.open(path)
    except Exception as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> ValueError:
    missing = isinstance(error, FileNotFoundError)
    problem = "does not exist" if missing else f"cannot be read ({type(error).__name__}: {error})"
    remedy = "Put it there" if missing else "Replace or remove it"
    return ValueError(
        f"{path} should be an image, but {problem}. {remedy}, or skip such files: with '--skip-bad-files' in a "
        "command, with skip_bad=True of load_dataset in Python."
    )


def _pillow() -> Any:
    return require("PIL.Image", "Image files need", extra="vision")
